#include "io/elements.h"

#include <bit>
#include <cstring>

#include "base/arithmetic/bfloat16.h"
#include "base/error.h"

namespace trl::io {

size_t element_size(ElementType type) {
  switch (type) {
    case ElementType::f64:
    case ElementType::i64:
      return 8;
    case ElementType::f32:
    case ElementType::i32:
      return 4;
    case ElementType::f16:
    case ElementType::bf16:
      return 2;
    case ElementType::u8:
      return 1;
    case ElementType::other:
      return 0;
  }
  return 0;
}

std::string_view element_name(ElementType type) {
  switch (type) {
    case ElementType::f64:
      return "F64";
    case ElementType::i64:
      return "I64";
    case ElementType::f32:
      return "F32";
    case ElementType::i32:
      return "I32";
    case ElementType::f16:
      return "F16";
    case ElementType::bf16:
      return "BF16";
    case ElementType::u8:
      return "U8";
    case ElementType::other:
      return "other";
  }
  return "other";
}

float half_to_float(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  const uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24 is exact in float32
    const float value = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | sign);
  }
  const uint32_t wide = exponent == 0x1f ? 0xffu : exponent + (127 - 15);
  return std::bit_cast<float>(sign | (wide << 23) | (mantissa << 13));
}

uint16_t float_to_half(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | 0x7e00u | static_cast<uint16_t>(magnitude >> 13 & 0x3ffu);
  if (std::bit_cast<float>(magnitude) >= kHalfOverflow) return sign | 0x7c00u;
  if (magnitude < 0x38800000u) {  // below 2^-14: adding 1/2 leaves a multiple of 2^-24 in the last bits
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return sign | static_cast<uint16_t>(std::bit_cast<uint32_t>(shifted) - 0x3f000000u);
  }
  const uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
  return sign | static_cast<uint16_t>((rounded >> 13) - ((127u - 15u) << 10));
}

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
      read_each<float>(data, first, count, out, [](float v) { return v; });
      return;
    case ElementType::f16:
      read_each<uint16_t>(data, first, count, out, half_to_float);
      return;
    case ElementType::bf16:
      read_each<base::bf16>(data, first, count, out, [](base::bf16 v) { return base::to_float(v); });
      return;
    case ElementType::f64:
      read_each<double>(data, first, count, out, [](double v) { return static_cast<float>(v); });
      return;
    default:
      fail(Status::internal, "read_floats: type {} holds no floating-point numbers", element_name(type));
  }
}

}  // namespace trl::io
