// bfloat16, the upper half of a float32, with the one rounding that files, kernels and optimizers share.
#pragma once
#include <cstdint>

#include "base/arithmetic/isa.h"

namespace trl::base {

struct bf16 {
  uint16_t bits;
};

TRL_INLINE float to_float(float x) { return x; }
TRL_INLINE float to_float(bf16 x) { return __builtin_bit_cast(float, static_cast<uint32_t>(x.bits) << 16); }

// Adds `added` to value's bits and returns the upper half; a NaN remains a NaN and becomes quiet.
TRL_INLINE bf16 cut_to_bf16(float value, uint32_t added) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, value);
  return {static_cast<uint16_t>(value == value ? (bits + added) >> 16 : (bits >> 16) | 0x40u)};
}
TRL_INLINE bf16 to_bf16(float value) {  // to nearest, ties to even
  return cut_to_bf16(value, 0x7fffu + ((__builtin_bit_cast(uint32_t, value) >> 16) & 1u));
}

TRL_INLINE void put(float* to, float value) { *to = value; }
TRL_INLINE void put(bf16* to, float value) { *to = to_bf16(value); }

}  // namespace trl::base
