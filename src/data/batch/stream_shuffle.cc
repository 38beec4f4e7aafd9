#include "data/batch/stream_shuffle.h"

#include <algorithm>
#include <numeric>

namespace trl::data {

std::vector<std::vector<size_t>> neighbours(const std::vector<size_t>& of) {
  const size_t groups = std::min(of.size(), kShuffleInputs);
  std::vector<std::vector<size_t>> out;
  for (size_t i = 0, at = 0; i < groups; ++i) {
    const size_t count = of.size() / groups + (i < of.size() % groups ? 1 : 0);
    out.emplace_back(of.begin() + static_cast<std::ptrdiff_t>(at),
                     of.begin() + static_cast<std::ptrdiff_t>(at + count));
    at += count;
  }
  return out;
}

std::vector<size_t> shard_order(size_t shards, uint64_t seed, int shuffles, int64_t epoch) {
  std::vector<size_t> order(shards);
  std::iota(order.begin(), order.end(), size_t{0});
  const auto permute = [&](uint64_t by) {
    std::vector<size_t> permuted;
    for (const uint32_t i : numpy_permutation<uint32_t>(by, static_cast<int64_t>(shards)))
      permuted.push_back(order[i]);
    order = std::move(permuted);
  };
  for (int i = 0; i < shuffles; ++i) permute(seed);
  if (epoch > 0) permute(static_cast<uint64_t>(epoch));
  return order;
}

NumpyGenerator epoch_generator(uint64_t seed, int64_t epoch) {
  NumpyGenerator first(seed);
  return epoch == 0 ? first : NumpyGenerator(first.integer63() - static_cast<uint64_t>(epoch));
}

}  // namespace trl::data
