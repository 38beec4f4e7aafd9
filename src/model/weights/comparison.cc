// Whether stored weights equal those in memory.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/arithmetic/bfloat16.h"
#include "model/weights/conversion.h"
#include "model/weights/weights.h"
#include "tensor/threads/parallel.h"

namespace trl::model {

bool holds(const WeightSource& source, const std::string& name, const at::Tensor& values) {
  constexpr int64_t kAtOnce = int64_t{8} << 20;  // elements compared before the file's pages are dropped
  source.read(name, 0, 0, nullptr);              // throws if its type cannot be read
  const bool narrow = values.scalar_type() == at::kBFloat16;
  const void* data = values.data_ptr();
  std::atomic<bool> same{true};
  const auto compare = [&](int64_t at, int64_t count) {
    float piece[kBuffer];
    source.read(name, at, count, piece);
    if (!narrow) {
      const float* floats = static_cast<const float*>(data) + at;
      return std::memcmp(floats, piece, static_cast<size_t>(count) * sizeof(float)) == 0;
    }
    const uint16_t* bits = static_cast<const uint16_t*>(data) + at;
    for (int64_t i = 0; i < count; ++i)
      if (bits[i] != base::to_bf16(piece[i]).bits) return false;
    return true;
  };
  for (int64_t first = 0; first < values.numel() && same; first += kAtOnce) {
    const int64_t elements = std::min(kAtOnce, values.numel() - first);
    source.fetch(name, first, elements);
    tensor::parallel_for((elements + kBuffer - 1) / kBuffer, 16, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin * kBuffer; at < std::min(end * kBuffer, elements) && same; at += kBuffer)
        if (!compare(first + at, std::min(kBuffer, elements - at))) same = false;
    });
    source.forget(name);
  }
  return same;
}

}  // namespace trl::model
