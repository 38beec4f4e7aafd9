// What the update loops share: elements of both types, and running a body on the best instruction set.
#pragma once
#include <cstdint>
#include <cstring>

#include "base/counter_random.h"
#include "base/isa.h"

namespace trl::optim {
namespace {

#define TRL_INLINE inline __attribute__((always_inline))

TRL_INLINE float load(float x) { return x; }
TRL_INLINE float load(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

// bits, plus what is added below the cut, cut to bfloat16; a NaN stays one.
TRL_INLINE uint16_t cut(float value, uint32_t bits, uint32_t added) {
  return static_cast<uint16_t>(value == value ? (bits + added) >> 16 : (bits >> 16) | 0x40u);
}
TRL_INLINE void store(float& out, float value) { out = value; }
TRL_INLINE void store(uint16_t& out, float value) {  // to nearest, ties to even
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  out = cut(value, bits, 0x7FFFu + ((bits >> 16) & 1u));
}
// The probability of the neighbour farther from 0 is the share of the way to it.
TRL_INLINE void store_random(float& out, float value, base::CounterKey, uint32_t) { out = value; }
TRL_INLINE void store_random(uint16_t& out, float value, base::CounterKey key, uint32_t index) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  out = cut(value, bits, base::counter_bits(key, index) >> 16);
}

#if TRL_CPU_VARIANTS
#define TRL_AVX2 __attribute__((target("avx2"), flatten))
#define TRL_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,prefer-vector-width=512"), flatten))
#else
#define TRL_AVX2
#define TRL_AVX512
#endif

template <typename Body>
TRL_AVX512 void on_avx512(const Body& body) {
  body();
}
template <typename Body>
TRL_AVX2 void on_avx2(const Body& body) {
  body();
}
template <typename Body>
__attribute__((flatten)) void on_generic(const Body& body) {
  body();
}
// The body, compiled for each instruction set.
template <typename Body>
void run(const Body& body) {
  switch (base::isa()) {
    case base::Isa::amx:
    case base::Isa::avx512bf16:
    case base::Isa::avx512:
      return on_avx512(body);
    case base::Isa::avx2:
      return on_avx2(body);
    case base::Isa::generic:
      return on_generic(body);
  }
}

}  // namespace
}  // namespace trl::optim
