// Blocks of 32: a scale d (float16), in some types a minimum m (float16), and the codes q. The low nibbles of
// 16 bytes are the elements 0 to 15, the high ones 16 to 31.
#include "io/gguf_blocks.h"

namespace trl::io {

namespace {

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

}  // namespace

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

}  // namespace trl::io
