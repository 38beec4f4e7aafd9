// numpy.random.default_rng(seed): the orders that datasets' shuffle(seed) gives (shuffle_dataset).
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

namespace trl::data {

// PCG64 as numpy seeds and draws from it. exclusive.
class NumpyGenerator {
 public:
  explicit NumpyGenerator(uint64_t seed);
  template <typename Index = int64_t>  // or uint32_t
  std::vector<Index> permutation(int64_t n);
  uint64_t integer63();  // integers(0, 1 << 63)

 private:
  __extension__ using uint128 = unsigned __int128;
  uint64_t next64();
  uint32_t next32();
  uint32_t up_to(uint32_t largest);
  void step();
  uint128 state_ = 0;
  uint128 increment_ = 0;
  uint32_t half_ = 0;
  bool half_kept_ = false;
};

template <typename Index = int64_t>
std::vector<Index> numpy_permutation(uint64_t seed, int64_t n) {
  return NumpyGenerator(seed).permutation<Index>(n);
}

}  // namespace trl::data
