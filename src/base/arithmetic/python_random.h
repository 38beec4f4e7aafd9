// Reproduces Python's module `random`: MT19937, seeded by its rule for integers.
#pragma once
#include <cstdint>
#include <random>
#include <vector>

namespace trl::base {

class PythonRandom {
 public:
  explicit PythonRandom(uint64_t seed);  // random.seed(seed)
  double random();                       // random.random(): in [0, 1)
  // Draws a number in [0, bound) as _randbelow() does. bound > 0.
  uint64_t below(uint64_t bound);
  // random.sample(range(size), count): different numbers, in the order in which they are drawn. count <=
  // size.
  std::vector<size_t> sample(size_t size, size_t count);
  uint64_t words() const { return words_; }  // of the engine that were drawn so far
  void discard(uint64_t words);              // draws as many

 private:
  uint32_t word();

  std::mt19937 engine_;
  uint64_t words_ = 0;
};

}  // namespace trl::base
