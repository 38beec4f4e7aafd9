// Checks of the options of a request, and the documented draw. Pure functions.
#pragma once
#include <array>
#include <cstdint>

#include "engine/sampling.h"

namespace trl::generate {

// Throws Error(invalid_config) naming the key. vocabulary: the number of ids.
void check_sampling(const engine::Sampling& sampling, int64_t vocabulary);

// Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"): random numbers as a pure
// function of key and counter, so that the draw for one token does not depend on earlier draws.
inline std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53u} * counter[0];
    const uint64_t b = uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

// A number in [0, 1) with 53 random bits: the draw for one position of one prompt.
inline double uniform(uint64_t seed, uint64_t prompt, uint64_t position) {
  const auto low = [](uint64_t v) { return static_cast<uint32_t>(v); };
  const auto high = [](uint64_t v) { return static_cast<uint32_t>(v >> 32); };
  const auto r = philox({low(position), high(position), low(prompt), high(prompt)}, {low(seed), high(seed)});
  return static_cast<double>(((uint64_t{r[0]} << 32) | r[1]) >> 11) * 0x1p-53;
}

}  // namespace trl::generate
