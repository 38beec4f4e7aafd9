// Helpers that the update loops share: elements of both types, and running a body on the best instruction
// set.
#pragma once
#include <cstdint>

#include "base/arithmetic/bfloat16.h"
#include "base/arithmetic/counter_random.h"

namespace trl::optim {
namespace {

using base::bf16;
using base::put;
using base::to_float;

// Stochastic rounding: the probability of the neighbour farther from 0 is the fraction of the way to it.
TRL_INLINE void put_random(float* to, float value, base::CounterKey, uint32_t) { *to = value; }
TRL_INLINE void put_random(bf16* to, float value, base::CounterKey key, uint32_t index) {
  *to = base::cut_to_bf16(value, base::counter_bits(key, index) >> 16);
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
// Runs the body, compiled for each instruction set.
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
