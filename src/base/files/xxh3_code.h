// XXH3 in code for single instruction sets: libxxhash.a has it for any machine of the architecture alone,
// which takes twice as long as reading the bytes.
#pragma once
#include <cstddef>
#include <cstdint>

#include "base/arithmetic/isa.h"

namespace trl::base {

struct Xxh3Code {
  uint64_t (*hash)(const void* bytes, size_t size);
  void (*update)(void* state, const void* bytes, size_t size);  // state: an XXH3_state_t
};

#if TRL_CPU_VARIANTS
extern const Xxh3Code kXxh3Avx2, kXxh3Avx512;
#endif

}  // namespace trl::base
