// Dequantises and quantises blocks as ggml defines them (ggml-common.h has the layouts, ggml-quants.c the
// reference), bit for bit: scales are widened to float32 first, every product and sum is rounded separately.
// Blocks need no alignment.
#include "io/gguf_types.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/arithmetic/bfloat16.h"
#include "base/error.h"
#include "io/gguf.h"
#include "io/safetensors.h"

namespace trl::io {

namespace {

float half_at(const uint8_t* bytes) {
  uint16_t bits;
  std::memcpy(&bits, bytes, sizeof bits);
  return half_to_float(bits);
}

// Blocks of 32: a scale d (float16), in some types a minimum m (float16), and the codes q. The low nibbles of
// 16 bytes are the elements 0 to 15, the high ones 16 to 31.
constexpr int kHalf = 16;

// Calls value(element, code) for the 32 nibbles.
template <typename Value>
void each_nibble(const uint8_t* nibbles, float* out, const Value& value) {
  for (int i = 0; i < kHalf; ++i) {
    out[i] = value(i, nibbles[i] & 15);
    out[i + kHalf] = value(i + kHalf, nibbles[i] >> 4);
  }
}

// Reads the fifth bit of each element's code, at its position.
uint32_t read_bits(const uint8_t* bytes) {
  uint32_t bits;
  std::memcpy(&bits, bytes, sizeof bits);
  return bits;
}
int fifth(uint32_t bits, int element) { return static_cast<int>(bits >> element & 1) << 4; }

// d, nibbles: x = (q - 8) d
void dequantize_q4_0(const uint8_t* block, float* out) {
  const float d = half_at(block);
  each_nibble(block + 2, out, [&](int, int q) { return static_cast<float>(q - 8) * d; });
}

// d, m, nibbles: x = q d + m
void dequantize_q4_1(const uint8_t* block, float* out) {
  const float d = half_at(block);
  const float m = half_at(block + 2);
  each_nibble(block + 4, out, [&](int, int q) { return static_cast<float>(q) * d + m; });
}

// d, 32 fifth bits, nibbles: x = (q - 16) d
void dequantize_q5_0(const uint8_t* block, float* out) {
  const float d = half_at(block);
  const uint32_t high = read_bits(block + 2);
  each_nibble(block + 6, out,
              [&](int i, int q) { return static_cast<float>((q | fifth(high, i)) - 16) * d; });
}

// d, m, 32 fifth bits, nibbles: x = q d + m
void dequantize_q5_1(const uint8_t* block, float* out) {
  const float d = half_at(block);
  const float m = half_at(block + 2);
  const uint32_t high = read_bits(block + 4);
  each_nibble(block + 8, out, [&](int i, int q) { return static_cast<float>(q | fifth(high, i)) * d + m; });
}

// d, 32 x int8: x = q d
void dequantize_q8_0(const uint8_t* block, float* out) {
  const float d = half_at(block);
  const auto* q = reinterpret_cast<const int8_t*>(block + 2);
  for (int i = 0; i < 2 * kHalf; ++i) out[i] = static_cast<float>(q[i]) * d;
}

// d, nibbles that choose one of 16 levels: x = d level
void dequantize_iq4_nl(const uint8_t* block, float* out) {
  constexpr float kLevels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  const float d = half_at(block);
  each_nibble(block + 2, out, [&](int, int q) { return d * kLevels[q]; });
}

// Super-blocks of 256: one or two float16 scales d (and dmin) over small integer scales (and minima) of 8
// groups of 32 or 16 groups of 16 elements.

// Reads two bits of each of 256 codes: 64 bytes, in which byte i of a half (128 elements) holds those of
// elements i, i + 32, i + 64 and i + 96.
int two_bits(const uint8_t* bytes, int element) {
  const int in_half = element % 128;
  return bytes[element / 128 * 32 + in_half % 32] >> in_half / 32 * 2 & 3;
}

// Reads four bits of each: 128 bytes, in which byte i of a quarter (64 elements) holds those of i and i + 32.
int nibble(const uint8_t* bytes, int element) {
  const int in_quarter = element % 64;
  return bytes[element / 64 * 32 + in_quarter % 32] >> in_quarter / 32 * 4 & 15;
}

// Reads one bit of each: 32 bytes, in which byte i holds those of elements i, i + 32, ...
int one_bit(const uint8_t* bytes, int element) { return bytes[element % 32] >> element / 32 & 1; }

struct Group {
  int scale, minimum;
};
// Reads 8 scales and 8 minima of 6 bits in 12 bytes: bytes 0 to 7 hold the first four of both whole, and in
// their upper two bits the upper ones of the last four, whose lower four bits are in the nibbles of the rest.
Group group_of(const uint8_t* bytes, int group) {
  if (group < 4) return {bytes[group] & 63, bytes[group + 4] & 63};
  const uint8_t low = bytes[group + 4];
  return {(low & 15) | bytes[group - 4] >> 6 << 4, low >> 4 | bytes[group] >> 6 << 4};
}

// Computes x = q scale - minimum, both of a group of 32, with q from value(element, code).
template <typename Code>
void dequantize_groups(const uint8_t* block, float* out, const Code& code) {
  const float d = half_at(block);
  const float dmin = half_at(block + 2);
  for (int group = 0; group < 8; ++group) {
    const Group packed = group_of(block + 4, group);
    const float scale = d * static_cast<float>(packed.scale);
    const float minimum = dmin * static_cast<float>(packed.minimum);
    for (int i = group * 32; i < group * 32 + 32; ++i) out[i] = scale * static_cast<float>(code(i)) - minimum;
  }
}

// 16 bytes (low nibble: scale, high: minimum of 16 elements), 64 bytes of two bits, d, dmin
void dequantize_q2_k(const uint8_t* block, float* out) {
  const float d = half_at(block + 80);
  const float dmin = half_at(block + 82);
  for (int group = 0; group < 16; ++group) {
    const float scale = d * static_cast<float>(block[group] & 15);
    const float minimum = dmin * static_cast<float>(block[group] >> 4);
    for (int i = group * 16; i < group * 16 + 16; ++i)
      out[i] = scale * static_cast<float>(two_bits(block + 16, i)) - minimum;
  }
}

// 32 bytes of third bits, 64 bytes of two bits, 16 scales of 6 bits in 12 bytes, d: x = d (scale - 32) (q -
// 4)
void dequantize_q3_k(const uint8_t* block, float* out) {
  const float d = half_at(block + 108);
  const uint8_t* scales = block + 96;
  for (int group = 0; group < 16; ++group) {
    const int low = scales[group % 8] >> group / 8 * 4 & 15;
    const int high = scales[8 + group % 4] >> group / 4 * 2 & 3;
    const float scale = d * static_cast<float>((low | high << 4) - 32);
    for (int i = group * 16; i < group * 16 + 16; ++i)
      out[i] = scale * static_cast<float>((two_bits(block + 32, i) | one_bit(block, i) << 2) - 4);
  }
}

// d, dmin, 12 bytes of scales and minima, 128 bytes of nibbles
void dequantize_q4_k(const uint8_t* block, float* out) {
  dequantize_groups(block, out, [&](int i) { return nibble(block + 16, i); });
}

// d, dmin, 12 bytes of scales and minima, 32 bytes of fifth bits, 128 bytes of nibbles
void dequantize_q5_k(const uint8_t* block, float* out) {
  dequantize_groups(block, out, [&](int i) { return nibble(block + 48, i) | one_bit(block + 16, i) << 4; });
}

// 128 bytes of nibbles, 64 bytes of two upper bits, 16 x int8 scales, d: x = d scale (q - 32). Byte i of the
// nibbles of a half (128 elements, 64 bytes) holds those of i and i + 64.
void dequantize_q6_k(const uint8_t* block, float* out) {
  const float d = half_at(block + 208);
  const auto* scales = reinterpret_cast<const int8_t*>(block + 192);
  for (int group = 0; group < 16; ++group) {
    const float scale = d * static_cast<float>(scales[group]);
    for (int i = group * 16; i < group * 16 + 16; ++i) {
      const int low = block[i / 128 * 64 + i % 64] >> i % 128 / 64 * 4 & 15;
      out[i] = scale * static_cast<float>((low | two_bits(block + 128, i) << 4) - 32);
    }
  }
}

constexpr GgmlType kTypes[] = {{kGgmlF32, "F32", 1, 4},
                               {kGgmlF16, "F16", 1, 2},
                               {kGgmlBF16, "BF16", 1, 2},
                               {kGgmlQ8_0, "Q8_0", 32, 34, dequantize_q8_0},
                               {kGgmlQ4_0, "Q4_0", 32, 18, dequantize_q4_0},
                               {kGgmlQ4_1, "Q4_1", 32, 20, dequantize_q4_1},
                               {kGgmlQ5_0, "Q5_0", 32, 22, dequantize_q5_0},
                               {kGgmlQ5_1, "Q5_1", 32, 24, dequantize_q5_1},
                               {kGgmlQ2_K, "Q2_K", 256, 84, dequantize_q2_k},
                               {kGgmlQ3_K, "Q3_K", 256, 110, dequantize_q3_k},
                               {kGgmlQ4_K, "Q4_K", 256, 144, dequantize_q4_k},
                               {kGgmlQ5_K, "Q5_K", 256, 176, dequantize_q5_k},
                               {kGgmlQ6_K, "Q6_K", 256, 210, dequantize_q6_k},
                               {kGgmlIQ4_NL, "IQ4_NL", 32, 18, dequantize_iq4_nl},
                               {9, "Q8_1"},
                               {15, "Q8_K"},
                               {16, "IQ2_XXS"},
                               {17, "IQ2_XS"},
                               {18, "IQ3_XXS"},
                               {19, "IQ1_S"},
                               {21, "IQ3_S"},
                               {22, "IQ2_S"},
                               {23, "IQ4_XS"},
                               {24, "I8"},
                               {25, "I16"},
                               {26, "I32"},
                               {27, "I64"},
                               {28, "F64"},
                               {29, "IQ1_M"},
                               {34, "TQ1_0"},
                               {35, "TQ2_0"},
                               {39, "MXFP4"}};

template <typename Wanted>
const GgmlType* find_type(const Wanted& wanted) {
  const auto* found = std::find_if(std::begin(kTypes), std::end(kTypes), wanted);
  return found == std::end(kTypes) ? nullptr : found;
}

}  // namespace

const GgmlType* find_ggml_type(uint32_t number) {
  return find_type([&](const GgmlType& type) { return type.number == number; });
}

const GgmlType* find_ggml_type(std::string_view name) {
  return find_type([&](const GgmlType& type) { return type.name == name; });
}

std::string readable_ggml_types() {
  std::string names;
  for (const GgmlType& type : kTypes)
    if (type.block > 0) names += (names.empty() ? "" : ", ") + std::string(type.name);
  return names;
}

void dequantize(const GgufTensor& tensor, int64_t first, int64_t count, float* out) {
  switch (tensor.type) {
    case kGgmlF32:
      return read_floats(ElementType::f32, tensor.data, first, count, out);
    case kGgmlF16:
      return read_floats(ElementType::f16, tensor.data, first, count, out);
    case kGgmlBF16:
      return read_floats(ElementType::bf16, tensor.data, first, count, out);
    default:
      break;
  }
  const GgmlType* type = find_ggml_type(tensor.type);
  if (type == nullptr || type->dequantize == nullptr || first % type->block != 0 || count % type->block != 0)
    fail(Status::internal, "dequantize: type {}, elements {} + {}", tensor.type_name, first, count);
  const uint8_t* block = static_cast<const uint8_t*>(tensor.data) + first / type->block * type->bytes;
  for (int64_t i = 0; i < count; i += type->block, block += type->bytes) type->dequantize(block, out + i);
}

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
  for (int64_t i = 0; i < count; i += kBlock, out += type.bytes)
    if (!quantize_block(values + i, out)) return i;
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
      for (int64_t i = 0; i < count; ++i)
        if (std::isfinite(values[i]) && std::abs(values[i]) >= kHalfOverflow) return i;
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
