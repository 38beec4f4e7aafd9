// Converts the numbers of weight files to float32.
#include <cstring>

#include "base/arithmetic/bfloat16.h"
#include "base/error.h"
#include "io/safetensors.h"

namespace trl::io {

namespace {

template <typename Stored, typename Convert>
void read_each(const void* data, int64_t first, int64_t count, float* out, const Convert& convert) {
  const char* bytes = static_cast<const char*>(data) + static_cast<size_t>(first) * sizeof(Stored);
  for (int64_t i = 0; i < count; ++i) {
    Stored stored;
    std::memcpy(&stored, bytes + static_cast<size_t>(i) * sizeof(Stored), sizeof(Stored));
    out[i] = convert(stored);
  }
}

}  // namespace

void read_floats(ElementType type, const void* data, int64_t first, int64_t count, float* out) {
  switch (type) {
    case ElementType::f32:
      if (count > 0)
        std::memcpy(out, static_cast<const char*>(data) + static_cast<size_t>(first) * sizeof(float),
                    static_cast<size_t>(count) * sizeof(float));
      return;
    case ElementType::f16:
      return read_each<uint16_t>(data, first, count, out, half_to_float);
    case ElementType::bf16:
      return read_each<base::bf16>(data, first, count, out, [](base::bf16 v) { return base::to_float(v); });
    case ElementType::f64:
      return read_each<double>(data, first, count, out, [](double v) { return static_cast<float>(v); });
    default:
      fail(Status::internal, "read_floats: type {} holds no floating-point numbers", element_name(type));
  }
}

}  // namespace trl::io
