// Super-blocks of 256: one or two float16 scales d (and dmin) over small integer scales (and minima) of 8
// groups of 32 or 16 groups of 16 elements.
#include "io/gguf_blocks.h"

namespace trl::io {

namespace {

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

}  // namespace

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

}  // namespace trl::io
