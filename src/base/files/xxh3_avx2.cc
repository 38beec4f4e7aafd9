#include "base/files/xxh3_code.h"

#if TRL_CPU_VARIANTS
#include <immintrin.h>
#include <stdlib.h>
#include <string.h>

// Headers of the standard library stand before: their functions may be joined with those of other files.
#pragma GCC push_options
#pragma GCC target("avx2")
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace trl::base {

namespace {

uint64_t hash_avx2(const void* bytes, size_t size) { return XXH3_64bits(bytes, size); }

void update_avx2(void* state, const void* bytes, size_t size) {
  XXH3_64bits_update(static_cast<XXH3_state_t*>(state), bytes, size);
}

}  // namespace

const Xxh3Code kXxh3Avx2 = {hash_avx2, update_avx2};

}  // namespace trl::base
#pragma GCC pop_options
#endif
