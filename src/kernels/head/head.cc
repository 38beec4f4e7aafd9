// The head: checks of its operands, its logits, and rows of it that an adapter replaces.
#include "kernels/head/head.h"

#include <algorithm>

#include "kernels/backend.h"
#include "kernels/gemm/gemm.h"
#include "kernels/head/head_node.h"
#include "kernels/head/head_sweep.h"
#include "kernels/weight/weight_product.h"

namespace trl::kernels {

namespace {

constexpr int32_t kIgnored = -100;

// A loss by a formula, with copies of all that it reads but the head.
struct FormulaLoss {
  Parameter* head;
  HeadTargets targets;
  TokenFormula formula;
  HeadOptions options;
  OwnRows own;                       // those of the options
  std::vector<TokenValues>* values;  // for the first sweep

  at::Tensor operator()(const HeadCall& call) const {
    TokenFormula scaled = formula;
    scaled.scale *= call.factor;
    HeadOptions with_own = options;
    if (own_rows(options) != nullptr) with_own.own_rows = &own;
    return backend(call.hidden)
        .head_sweep(call.hidden, *head, targets, &scaled, with_own, call.gradients,
                    call.first ? values : nullptr);
  }
};

void check(const at::Tensor& hidden, const Parameter& head, const HeadTargets& targets,
           const HeadOptions& options) {
  need(!options.as_generated || fused(hidden), "head",
       "the fused kernels are needed for log-probabilities of generation");
  need(hidden.dim() == 2 && head.shape().size() == 2 && hidden.size(1) == head.size(1) &&
           hidden.is_contiguous() && targets.rows.size() == targets.tokens.size(),
       "head", "hidden [rows, width], a head [vocab, width], and a token for each target's row are needed");
  int32_t before = 0;
  for (size_t i = 0; i < targets.rows.size(); ++i) {
    const int32_t row = targets.rows[i], token = targets.tokens[i];
    need(row >= before && row < hidden.size(0), "head",
         "rows of targets that ascend, within hidden, are needed");
    before = row;
    if (token >= 0 && token < head.size(0)) continue;
    fail(Status::invalid_argument, "target {} at position {}: {} has rows 0 to {}", token, row, head.name,
         head.size(0) - 1);
  }
}

// Own rows are not part of the copy: their logits are computed apart.
void multiply_copy(const at::Tensor& x, const HeadOptions& options, at::Tensor& logits) {
  skinny_products(x, SkinnyProduct{{}, {}, logits, nullptr, 0, options.narrow});
  const OwnRows* const own = own_rows(options);
  if (own == nullptr) return;
  const auto count = static_cast<int64_t>(own->ids.size());
  const at::Tensor own_logits = tensor::empty({x.size(0), count}, at::kFloat, MemoryKind::workspace);
  skinny_products(x, SkinnyProduct{*read(*own->rows, x.scalar_type()), {}, own_logits});
  tensor::parallel_for(x.size(0), 16, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      for (int64_t i = 0; i < count; ++i)
        logits.data_ptr<float>()[r * logits.size(1) + own->ids[static_cast<size_t>(i)]] =
            own_logits.data_ptr<float>()[r * count + i];
    }
  });
}

void multiply_encoded(const at::Tensor& x, const tensor::Encoded& head, at::Tensor& logits) {
  if (x.size(0) <= kSkinnyRows || IndependentRows::active())
    return skinny_products(x, SkinnyProduct{{}, {}, logits, &head});
  const Matrix rows{x.data_ptr(), x.scalar_type(), x.size(0), x.size(1), x.size(1)};
  gemm(PanelMultiplication{rows, panels(head, x.scalar_type(), true), logits.data_ptr(), at::kFloat,
                           logits.size(1)});
}

// own: or null.
class PatchedHead final : public tensor::Encoded {
 public:
  PatchedHead(Parameter& head, const OwnRows* own, at::ScalarType type)
      : Encoded(head.shape().vec()),
        encoded_(head.encoded()),
        table_(encoded_ == nullptr ? std::optional(read_head(head, type)) : std::nullopt),
        rows_(own != nullptr ? std::optional(own->rows->read()) : std::nullopt) {
    if (own == nullptr) return;
    for (size_t i = 0; i < own->ids.size(); ++i) places_.emplace_back(own->ids[i], static_cast<int64_t>(i));
    std::ranges::sort(places_);
  }

  std::string form() const override {
    return rows_ ? "a table with rows of an adapter" : "a table in another type";
  }
  int64_t unit() const override { return encoded_ != nullptr ? encoded_->unit() : 1; }
  void decode(const tensor::Part2d& part, at::ScalarType type, void* to,
              int64_t stride) const noexcept override {
    const auto copy = [&](const at::Tensor& from, int64_t from_row, int64_t row) {
      cpu().convert(
          at_byte(from, from_row * width() + part.column), type_of(from),
          static_cast<char*>(to) + (row - part.row) * stride * static_cast<int64_t>(c10::elementSize(type)),
          type_of(type), part.columns);
    };
    if (encoded_ != nullptr)
      encoded_->decode(part, type, to, stride);
    else
      for (int64_t row = part.row; row < part.row + part.rows; ++row) copy(**table_, row, row);
    auto place = std::ranges::lower_bound(places_, std::pair<int64_t, int64_t>(part.row, 0));
    for (; place != places_.end() && place->first < part.row + part.rows; ++place)
      copy(**rows_, place->second, place->first);
  }

 private:
  const tensor::Encoded* const encoded_;  // instead of table_
  const std::optional<tensor::Reading> table_;
  const std::optional<tensor::Reading> rows_;
  std::vector<std::pair<int64_t, int64_t>> places_;  // row of the head, row of the adapter's
};

// The head's values where products with few rows cannot read them as they are stored: it has rows of an
// adapter, or is in bfloat16 and computes in float32. A float32 copy of all would be made for each product.
std::unique_ptr<const tensor::Encoded> in_pieces(Parameter& head, const HeadOptions& options) {
  if (options.narrow != nullptr) return nullptr;
  const OwnRows* const own = own_rows(options);
  const bool widens =
      head.encoded() == nullptr && head.dtype() == at::kBFloat16 && options.compute == at::kFloat;
  if (own == nullptr && !widens) return nullptr;
  return std::make_unique<PatchedHead>(head, own, options.compute);
}

}  // namespace

HeadTargets head_targets(const at::Tensor& targets) {
  need(targets.dim() == 1 && targets.scalar_type() == at::kInt && targets.is_contiguous(), "head",
       "int32 targets [rows] are needed");
  HeadTargets list;
  const int32_t* const token = targets.data_ptr<int32_t>();
  for (int64_t row = 0; row < targets.numel(); ++row) {
    if (token[row] == kIgnored) continue;
    list.rows.push_back(static_cast<int32_t>(row));
    list.tokens.push_back(token[row]);
  }
  return list;
}

namespace fused_ops {

at::Tensor head_sweep(const at::Tensor& hidden, Parameter& head, const HeadTargets& targets,
                      const TokenFormula* formula, const HeadOptions& options, const HeadGradients& gradients,
                      std::vector<TokenValues>* values) {
  return scalar(HeadSweep(hidden, head, targets, formula, options, gradients).run(values));
}

at::Tensor head_logits(const at::Tensor& hidden, Parameter& head, const HeadOptions& options) {
  at::Tensor logits = tensor::empty({hidden.size(0), head.size(0)}, at::kFloat, MemoryKind::workspace);
  const at::Tensor operand = converted(hidden, options.compute, MemoryKind::workspace);
  const auto pieces = in_pieces(head, options);
  if (options.narrow != nullptr)
    multiply_copy(operand, options, logits);
  else if (const tensor::Encoded* const encoded = pieces ? pieces.get() : head.encoded())
    multiply_encoded(operand, *encoded, logits);
  else if ((hidden.size(0) <= kSkinnyRows || IndependentRows::active()) && head.dtype() == options.compute)
    skinny_products(operand, SkinnyProduct{*read(head, options.compute), {}, logits});
  else
    gemm(operand, false, *read(head, options.compute), true, logits);
  if (options.scale == 1 && options.softcap == 0) return logits;
  parallel_elements(logits.numel(), [&](int64_t begin, int64_t end) {
    cpu().head_finish(logits.data_ptr<float>() + begin, static_cast<float>(options.scale),
                      static_cast<float>(options.softcap), end - begin);
  });
  return logits;
}

}  // namespace fused_ops

std::vector<TokenValues> head_values(const at::Tensor& hidden, Parameter& head, const HeadTargets& targets,
                                     const HeadOptions& options) {
  check(hidden, head, targets, options);
  std::vector<TokenValues> values;
  backend(hidden).head_sweep(hidden, head, targets, nullptr, options, {}, &values);
  return values;
}

at::Tensor head_loss(const at::Tensor& hidden, Parameter& head, const HeadTargets& targets,
                     const TokenFormula& formula, const HeadOptions& options,
                     std::vector<TokenValues>* values) {
  check(hidden, head, targets, options);
  for (const std::vector<double>& column : formula.columns)
    need(column.size() == targets.rows.size(), "head", "a number for each target is needed");
  if (records(hidden)) {
    const OwnRows* const own = own_rows(options);
    return head_node(
        hidden, head, options,
        FormulaLoss{&head, targets, formula, options, own != nullptr ? *own : OwnRows(), values});
  }
  return backend(hidden).head_sweep(hidden, head, targets, &formula, options, {}, values);
}

at::Tensor head_logits(const at::Tensor& hidden, Parameter& head, const HeadOptions& options) {
  need(hidden.dim() == 2 && hidden.is_contiguous() && hidden.size(1) == head.size(1), "head_logits",
       "hidden [rows, width] is needed");
  return backend(hidden).head_logits(hidden, head, options);
}

std::unique_ptr<const tensor::Encoded> with_own_rows(Parameter& head, const OwnRows& own,
                                                     at::ScalarType type) {
  return std::make_unique<PatchedHead>(head, &own, type);
}

}  // namespace trl::kernels
