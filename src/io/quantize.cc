#include "io/quantize.h"

#include <cmath>
#include <cstring>

#include "base/arithmetic/bfloat16.h"
#include "base/error.h"
#include "io/elements.h"

namespace trl::io {

namespace {

constexpr int kBlock = 32;

void put_half(uint8_t* out, float value) {
  const uint16_t bits = float_to_half(value);
  std::memcpy(out, &bits, sizeof bits);
}

// Returns the value of the largest magnitude, the first of several; infinite or NaN if one is.
float largest(const float* values) {
  float found = 0;
  for (int i = 0; i < kBlock; ++i) {
    if (!std::isfinite(values[i])) return values[i];
    if (std::abs(values[i]) > std::abs(found)) found = values[i];
  }
  return found;
}

// d = largest / 127: codes from -127 to 127
bool quantize_q8_0(const float* values, uint8_t* out) {
  const float d = std::abs(largest(values)) / 127;
  if (!(d <= kLargestHalf)) return false;
  const float inverse = d != 0 ? 1 / d : 0;
  put_half(out, d);
  for (int i = 0; i < kBlock; ++i)
    out[2 + i] = static_cast<uint8_t>(static_cast<int8_t>(std::round(values[i] * inverse)));
  return true;
}

// d = -largest / 8, so that the largest has the code 0 and its opposite, 16, is cut off
bool quantize_q4_0(const float* values, uint8_t* out) {
  const float d = largest(values) / -8;
  if (!(std::abs(d) <= kLargestHalf)) return false;
  const float inverse = d != 0 ? 1 / d : 0;
  put_half(out, d);
  const auto code = [&](int i) {
    const int rounded = static_cast<int>(values[i] * inverse + 8.5f);
    return rounded < 15 ? rounded : 15;
  };
  for (int i = 0; i < kBlock / 2; ++i) out[2 + i] = static_cast<uint8_t>(code(i) | code(i + kBlock / 2) << 4);
  return true;
}

template <typename Convert>
int64_t narrow(const float* values, int64_t count, uint8_t* out, const Convert& convert) {
  for (int64_t i = 0; i < count; ++i) {
    const uint16_t bits = convert(values[i]);
    std::memcpy(out + 2 * i, &bits, sizeof bits);
  }
  return count;
}

template <typename Quantize>
int64_t each_block(const GgmlType& type, const float* values, int64_t count, uint8_t* out,
                   const Quantize& quantize_block) {
  for (int64_t i = 0; i < count; i += kBlock, out += type.bytes) {
    if (!quantize_block(values + i, out)) return i;
  }
  return count;
}

}  // namespace

bool is_writable(const GgmlType& type) {
  return type.number == kGgmlF32 || type.number == kGgmlF16 || type.number == kGgmlBF16 ||
         type.number == kGgmlQ8_0 || type.number == kGgmlQ4_0;
}

int64_t quantize(const GgmlType& type, const float* values, int64_t count, uint8_t* out) {
  switch (type.number) {
    case kGgmlF32:
      std::memcpy(out, values, static_cast<size_t>(count) * sizeof(float));
      return count;
    case kGgmlBF16:
      return narrow(values, count, out, [](float value) { return base::to_bf16(value).bits; });
    case kGgmlF16:
      for (int64_t i = 0; i < count; ++i) {
        if (std::isfinite(values[i]) && std::abs(values[i]) >= kHalfOverflow) return i;
      }
      return narrow(values, count, out, float_to_half);
    case kGgmlQ8_0:
      return each_block(type, values, count, out, quantize_q8_0);
    case kGgmlQ4_0:
      return each_block(type, values, count, out, quantize_q4_0);
    default:
      fail(Status::internal, "quantize: type {}", type.name);
  }
}

}  // namespace trl::io
