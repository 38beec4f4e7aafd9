// Dequantises one block as ggml defines it (ggml-common.h has the layouts, ggml-quants.c the reference), bit
// for bit: scales are widened to float32 first, every product and sum is rounded separately. Blocks need no
// alignment.
#pragma once
#include <cstdint>
#include <cstring>

#include "io/elements.h"

namespace trl::io {

inline float half_at(const uint8_t* bytes) {
  uint16_t bits;
  std::memcpy(&bits, bytes, sizeof bits);
  return half_to_float(bits);
}

// Blocks of 32 elements.
void dequantize_q4_0(const uint8_t* block, float* out);
void dequantize_q4_1(const uint8_t* block, float* out);
void dequantize_q5_0(const uint8_t* block, float* out);
void dequantize_q5_1(const uint8_t* block, float* out);
void dequantize_q8_0(const uint8_t* block, float* out);
void dequantize_iq4_nl(const uint8_t* block, float* out);

// Blocks of 256 elements.
void dequantize_q2_k(const uint8_t* block, float* out);
void dequantize_q3_k(const uint8_t* block, float* out);
void dequantize_q4_k(const uint8_t* block, float* out);
void dequantize_q5_k(const uint8_t* block, float* out);
void dequantize_q6_k(const uint8_t* block, float* out);

}  // namespace trl::io
