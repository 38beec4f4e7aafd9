#include "kernels/weight/narrow_weight.h"

#include <cmath>

#include "kernels/op.h"
#include "kernels/plain.h"
#include "tensor/memory/rehearsal.h"

namespace trl::kernels {

namespace {

int64_t panels_of(int64_t outputs) { return (outputs + kNarrowOutputs - 1) / kNarrowOutputs; }

// Columns [first, first + count) of w as rows.
template <typename T>
void turn_columns(const at::Tensor& w, int64_t first, int64_t count, void* to) {
  const auto* const from = static_cast<const T*>(w.data_ptr()) + first;
  for (int64_t c = 0; c < count; ++c)
    for (int64_t r = 0; r < w.size(0); ++r) static_cast<T*>(to)[c * w.size(0) + r] = from[r * w.size(1) + c];
}

}  // namespace

// Sums of squares of the outputs of a panel.
struct NarrowWeight::RowErrors {
  float values[kNarrowOutputs], errors[kNarrowOutputs];
};

bool NarrowWeight::takes(const tensor::Parameter& weight) {
  const size_t dims = weight.shape().size();
  return dims == 2 || (dims == 3 && weight.size(1) % kNarrowOutputs == 0);
}

NarrowWeight::NarrowWeight(tensor::Parameter& weight, bool transposed, NarrowType type)
    : weight_(&weight), transposed_(transposed), type_(type) {
  need(weight.device().is_cpu() && takes(weight), "NarrowWeight", "a matrix on the CPU is needed");
  const bool experts = weight.shape().size() == 3;
  outputs_ = experts ? weight.size(0) * weight.size(1) : weight.size(transposed ? 1 : 0);
  terms_ = experts ? weight.size(2) : weight.size(transposed ? 0 : 1);
  copy();
}

const void* NarrowWeight::row(int64_t output) const {
  if (type_ == NarrowType::bfloat16) return at_byte(values_, output * terms_);
  const int64_t bytes = narrow_panel_bytes(type_ == NarrowType::int4, terms_);
  return values_.data_ptr<uint8_t>() + output / kNarrowOutputs * bytes;
}

void NarrowWeight::refresh() {
  const bool rehearsed = tensor::Rehearsal::current() != nullptr;  // the copy would stay as it is
  if (changes_ != weight_->version() && !rehearsed) copy();
}

// A panel's rows are read in place, or else decoded or turned first.
void NarrowWeight::copy() {
  const bool codes = type_ != NarrowType::bfloat16;
  const int64_t panels = panels_of(outputs_);
  if (!values_.defined()) {
    values_ = codes ? tensor::empty({panels * narrow_panel_bytes(type_ == NarrowType::int4, terms_)},
                                    at::kByte, MemoryKind::weights)
                    : tensor::empty({outputs_, terms_}, at::kBFloat16, MemoryKind::weights);
  }
  const uint64_t changes = weight_->version();
  const tensor::Encoded* const encoded = transposed_ ? nullptr : weight_->encoded();
  const at::Tensor w = encoded == nullptr ? *weight_->read() : at::Tensor();
  const auto size = static_cast<int64_t>(c10::elementSize(weight_->dtype()));
  std::vector<RowErrors> errors(static_cast<size_t>(panels));
  each_with_work(panels, kNarrowOutputs * terms_, [&](int64_t panel, float* work) {
    const int64_t first = panel * kNarrowOutputs, rows = std::min(kNarrowOutputs, outputs_ - first);
    const void* from = work;
    if (encoded != nullptr)
      encoded->decode({first, rows, 0, terms_}, weight_->dtype(), work, terms_);
    else if (!transposed_)
      from = static_cast<const char*>(w.data_ptr()) + first * terms_ * size;
    else if (size == 4)
      turn_columns<float>(w, first, rows, work);
    else
      turn_columns<uint16_t>(w, first, rows, work);
    copy_rows(first, rows, from, errors[static_cast<size_t>(panel)]);
  });
  base::poll();
  changes_ = changes;
  errors_ = {};
  for (int64_t out = 0; out < outputs_; ++out) {
    const RowErrors& panel = errors[static_cast<size_t>(out / kNarrowOutputs)];
    const double values = panel.values[out % kNarrowOutputs], wrong = panel.errors[out % kNarrowOutputs];
    errors_.values += values;
    errors_.errors += wrong;
    if (values > 0) errors_.worst = std::max(errors_.worst, std::sqrt(wrong / values));
  }
}

void NarrowWeight::copy_rows(int64_t first, int64_t rows, const void* from, RowErrors& errors) {
  const Type type = type_of(weight_->dtype());
  if (type_ != NarrowType::bfloat16) {
    void* const to = const_cast<void*>(row(first));
    return cpu().narrow_encode({from, rows, terms_, type, to, errors.values, errors.errors}, type_);
  }
  std::vector<float> wide(static_cast<size_t>(terms_)), rounded(wide);
  for (int64_t r = 0; r < rows; ++r) {
    void* const to = at_byte(values_, (first + r) * terms_);
    const void* const own = static_cast<const char*>(from) + r * terms_ * (type == Type::f32 ? 4 : 2);
    cpu().convert(own, type, wide.data(), Type::f32, terms_);
    cpu().convert(wide.data(), Type::f32, to, Type::bf16, terms_);
    cpu().convert(to, Type::bf16, rounded.data(), Type::f32, terms_);
    cpu().add(wide.data(), Type::f32, rounded.data(), Type::f32, -1.0f, rounded.data(), terms_);
    errors.values[r] = cpu().dot(wide.data(), wide.data(), Type::f32, terms_);
    errors.errors[r] = cpu().dot(rounded.data(), rounded.data(), Type::f32, terms_);
  }
}

at::Tensor NarrowWeight::numbers(Rows of) const {
  if (type_ == NarrowType::bfloat16) return values_.narrow(0, of.first, of.count).to(at::kFloat);
  const bool four = type_ == NarrowType::int4;
  at::Tensor all = tensor::empty({of.count, terms_}, at::kFloat, MemoryKind::workspace);
  const int64_t block_bytes = narrow_block_bytes(four);
  for (int64_t row = 0; row < of.count; ++row) {
    const int64_t out = of.first + row;
    const auto* const panel = static_cast<const uint8_t*>(this->row(out));
    const int64_t place = out % kNarrowOutputs;
    for (int64_t i = 0; i < terms_; ++i) {
      const uint8_t* const block = panel + i / kNarrowTerms * block_bytes;
      const int64_t group = i % kNarrowTerms / 4, byte = place * 4 + i % 4;
      int32_t code;
      float step;
      if (four) {
        const int32_t both = block[group / 2 * 4 * kNarrowOutputs + byte];
        code = group % 2 != 0 ? both >> 4 : both & 15;
        step = reinterpret_cast<const at::BFloat16*>(block + 16 * kNarrowOutputs)[place];
      } else {
        code = block[group * 4 * kNarrowOutputs + byte];
        step = reinterpret_cast<const float*>(panel + narrow_blocks(terms_) * block_bytes)[place];
      }
      all.data_ptr<float>()[row * terms_ + i] = static_cast<float>(code - narrow_offset(type_)) * step;
    }
  }
  return all;
}

namespace plain {

at::Tensor narrow_product(const at::Tensor& x, const NarrowWeight& w, const at::Tensor& bias) {
  return narrow_product(x, w, bias, {0, w.outputs()});
}

at::Tensor narrow_product(const at::Tensor& x, const NarrowWeight& w, const at::Tensor& bias,
                          NarrowWeight::Rows of) {
  if (w.type() == NarrowType::bfloat16)
    return product(x, w.values().narrow(0, of.first, of.count).to(x.scalar_type()), bias);
  const int64_t rows = x.size(0), k = x.size(1);
  const at::Tensor padded = at::constant_pad_nd(x.to(at::kFloat), {0, round_up(k, kNarrowTerms) - k});
  const at::Tensor blocks = padded.view({rows, -1, kNarrowTerms});
  const at::Tensor most = blocks.abs().amax(-1, true);
  const at::Tensor scale = at::where(most > 0x1p-100, 127 / most, at::zeros({}));
  const at::Tensor terms = (blocks * scale).round() * (most / 127);
  const at::Tensor wide_bias = bias.defined() ? bias.to(at::kFloat) : bias;
  return at::linear(terms.view({rows, -1}).narrow(1, 0, k), w.numbers(of), wide_bias).to(x.scalar_type());
}

}  // namespace plain

}  // namespace trl::kernels
