#include "model/loader/quantised.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>

#include "base/error.h"
#include "io/four_bit.h"
#include "io/safetensors.h"
#include "kernels/weight/encoded_weight.h"
#include "tensor/memory/counted.h"
#include "tensor/threads/parallel.h"

namespace trl::model {

namespace {

using tensor::MemoryKind;

constexpr int64_t kBlock = 64, kAtOnce = 64 * kBlock;

io::ElementType element_type(const at::Tensor& values) {
  return values.scalar_type() == at::kBFloat16 ? io::ElementType::bf16 : io::ElementType::f32;
}

// The first element that could not be encoded, shared by several threads.
class First {
 public:
  void note(int64_t element) {
    int64_t before = first_;
    while (element < before && !first_.compare_exchange_weak(before, element)) {
    }
  }
  void check(const std::string& place, const at::Tensor& values, const char* what) const {
    if (first_ == kNone) return;
    const int64_t width = values.size(1);
    fail(Status::format, "{}: row {}, column {} is {}, {}", place, first_ / width, first_ % width,
         values.view({-1})[first_].item<float>(), what);
  }

 private:
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  std::atomic<int64_t> first_{kNone};
};

std::shared_ptr<const tensor::Encoded> four_bit(const std::string& place, const at::Tensor& values,
                                                io::FourBit type, bool nested) {
  const int64_t count = values.numel(), blocks = (count + kBlock - 1) / kBlock;
  kernels::FourBitValues out{.type = type, .block = kBlock};
  out.codes = tensor::empty({(count + 1) / 2}, at::kByte, MemoryKind::weights);
  out.absmax = tensor::empty({blocks}, at::kFloat, nested ? MemoryKind::workspace : MemoryKind::weights);
  First damaged;
  tensor::parallel_for((count + kAtOnce - 1) / kAtOnce, 1, [&](int64_t begin, int64_t end) {
    std::array<float, kAtOnce> piece;
    for (int64_t at = begin * kAtOnce; at < std::min(end * kAtOnce, count) && !base::stopped();
         at += kAtOnce) {
      const int64_t size = std::min(kAtOnce, count - at);
      io::read_floats(element_type(values), values.data_ptr(), at, size, piece.data());
      const int64_t done =
          io::encode_four_bit(type, piece.data(), size, kBlock, out.codes.data_ptr<uint8_t>() + at / 2,
                              out.absmax.data_ptr<float>() + at / kBlock);
      if (done < size) damaged.note(at + done);
    }
  });
  damaged.check(place, values, "which 4-bit blocks cannot hold");
  if (nested) kernels::nest(out, out.absmax);
  return kernels::four_bit_weight(values.sizes().vec(), std::move(out));
}

std::shared_ptr<const tensor::Encoded> int8(const std::string& place, const at::Tensor& values) {
  const int64_t rows = values.size(0), width = values.size(1);
  const at::Tensor codes = tensor::empty(values.sizes(), at::kChar, MemoryKind::weights);
  const at::Tensor absmax = tensor::empty({rows}, at::kFloat, MemoryKind::weights);
  First damaged;
  tensor::parallel_for(rows, 16, [&](int64_t begin, int64_t end) {
    std::vector<float> row(static_cast<size_t>(width));
    for (int64_t r = begin; r < end && !base::stopped(); ++r) {
      io::read_floats(element_type(values), values.data_ptr(), r * width, width, row.data());
      const int64_t done = io::encode_int8_row(row.data(), width, codes.data_ptr<int8_t>() + r * width,
                                               absmax.data_ptr<float>()[r]);
      if (done < width) damaged.note(r * width + done);
    }
  });
  damaged.check(place, values, "and int8 weights are made of float16 values, at most 65504");
  return kernels::int8_weight(values.sizes().vec(), codes, absmax);
}

}  // namespace

std::shared_ptr<const tensor::Encoded> quantised(const std::string& place, const at::Tensor& values,
                                                 const config::Quantization& quantization) {
  if (quantization.form == config::WeightForm::int8) return int8(place, values);
  const bool fp4 = quantization.form == config::WeightForm::fp4;
  return four_bit(place, values, fp4 ? io::FourBit::fp4 : io::FourBit::nf4, quantization.nested);
}

}  // namespace trl::model
