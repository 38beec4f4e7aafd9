// Random bits by counter: a pure function of a key and an index, so no random state is ever saved and the
// results do not depend on the number of threads.
#pragma once
#include <cstdint>
#include <initializer_list>

#include "base/arithmetic/isa.h"

namespace trl::base {

struct CounterKey {
  uint32_t low = 0, high = 0;
};

// SplitMix64's output function (Steele, Lea & Flood 2014), chained over the parts: seed, step, ...
inline uint64_t counter_seed(std::initializer_list<uint64_t> parts) {
  uint64_t key = 0;
  for (const uint64_t part : parts) {
    key = (key ^ part) + 0x9E3779B97F4A7C15u;
    key = (key ^ (key >> 30)) * 0xBF58476D1CE4E5B9u;
    key = (key ^ (key >> 27)) * 0x94D049BB133111EBu;
    key ^= key >> 31;
  }
  return key;
}
inline CounterKey counter_key(std::initializer_list<uint64_t> parts) {
  const uint64_t key = counter_seed(parts);
  return {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)};
}

// Mixes 32 bits with C. Wellons' constants. Half of the key enters between the rounds, so that keys that
// differ little do not give shifted copies of one sequence.
TRL_INLINE uint32_t counter_bits(CounterKey key, uint32_t index) {
  uint32_t x = index + key.low;
  x = (x ^ (x >> 16)) * 0x7FEB352Du;
  x += key.high;
  x = (x ^ (x >> 15)) * 0x846CA68Bu;
  return x ^ (x >> 16);
}

// Returns a number in [-1, 1), in steps of 2^-23.
TRL_INLINE float counter_uniform(CounterKey key, uint32_t index) {
  return static_cast<float>(static_cast<int32_t>(counter_bits(key, index)) >> 8) * 0x1p-23f;
}

}  // namespace trl::base
