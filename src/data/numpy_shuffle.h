// numpy.random.default_rng(seed).permutation(n): the order that datasets' shuffle(seed) gives
// (shuffle_dataset).
#pragma once
#include <cstdint>
#include <vector>

namespace trl::data {
template <typename Index = int64_t>  // or uint32_t
std::vector<Index> numpy_permutation(uint64_t seed, int64_t n);
}
