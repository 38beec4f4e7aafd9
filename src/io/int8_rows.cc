#include "io/int8_rows.h"

#include <algorithm>
#include <cmath>

#include "io/elements.h"

namespace trl::io {

int64_t encode_int8_row(const float* values, int64_t count, int8_t* codes, float& absmax) {
  const auto half = [&](int64_t i) { return half_to_float(float_to_half(values[i])); };
  absmax = 0;
  for (int64_t i = 0; i < count; ++i) {
    const float value = half(i);
    if (!std::isfinite(value)) return i;
    absmax = std::max(absmax, std::abs(value));
  }
  const float factor = absmax > 0 ? 1.0f / absmax * 127.0f : 0.0f;
  for (int64_t i = 0; i < count; ++i) codes[i] = static_cast<int8_t>(std::nearbyint(half(i) * factor));
  return count;
}

}  // namespace trl::io
