// Random inputs, the same on every machine.
#pragma once
#include <cstddef>
#include <cstdint>
#include <random>

namespace trl::test {

class RandomNumbers {
 public:
  explicit RandomNumbers(uint32_t seed) : random_(seed) {}
  double operator()(double least, double most) {
    return least + (most - least) * static_cast<double>(random_()) / 4294967296.0;
  }
  size_t below(size_t count) { return random_() % count; }

 private:
  std::mt19937 random_;
};

}  // namespace trl::test
