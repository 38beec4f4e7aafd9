// Reproduces the part of torch's CPU generator that data order needs: MT19937 seeded with the low 32 bits of
// the seed. numpy.random.seed() of such a number gives NumPy's older generator the same sequence.
#pragma once
#include <bit>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace trl::base {

class TorchGenerator {
 public:
  explicit TorchGenerator(uint64_t seed) : engine_(static_cast<uint32_t>(seed)) {}
  uint32_t random32() { return static_cast<uint32_t>(engine_()); }
  uint64_t random64() {
    const uint64_t high = engine_();
    return (high << 32) | engine_();
  }
  int64_t random_int64() { return static_cast<int64_t>(random64() & ((1ull << 63) - 1)); }
  // The place in its sequence as text. load_state() takes only such a text: Error(format) otherwise.
  std::string state() const;
  void load_state(const std::string& text);

 private:
  std::mt19937 engine_;
};

// torch.randperm(n, generator): for i in 0..n-2 swap entries i and i + u mod (n - i).
template <class Index = int64_t>
std::vector<Index> randperm(int64_t n, TorchGenerator& generator) {
  std::vector<Index> order(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) order[static_cast<size_t>(i)] = static_cast<Index>(i);
  for (int64_t i = 0; i + 1 < n; ++i) {
    const int64_t z = generator.random32() % static_cast<uint64_t>(n - i);
    std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(i + z)]);
  }
  return order;
}

// numpy.random.permutation(n): for i from n - 1 down to 1 swap entry i with one up to it, whose number is the
// first draw, of as many bits as i has, that is not above i. n: at most 2^32.
inline std::vector<int64_t> numpy_permutation(int64_t n, TorchGenerator& generator) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  for (auto i = static_cast<uint32_t>(n - 1); n > 1 && i > 0; --i) {
    const uint32_t mask = ~uint32_t{0} >> std::countl_zero(i);
    uint32_t j = generator.random32() & mask;
    while (j > i) j = generator.random32() & mask;
    std::swap(order[i], order[j]);
  }
  return order;
}

}  // namespace trl::base
