#include "base/arithmetic/python_random.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace trl::base {

namespace {

// Fills the state of the generator from a key of 32-bit words: init_by_array() of the authors' mt19937ar.c.
class KeySequence {
 public:
  using result_type = uint32_t;
  explicit KeySequence(std::vector<uint32_t> key) : key_(std::move(key)) {}

  template <class Iterator>
  void generate(Iterator begin, Iterator end) {
    const auto n = static_cast<size_t>(end - begin);
    begin[0] = 19650218;
    for (uint32_t i = 1; i < n; ++i) begin[i] = 1812433253 * mixed(begin[i - 1]) + i;
    size_t i = 1;
    const auto advance = [&] {
      if (++i < n) return;
      begin[0] = begin[n - 1];
      i = 1;
    };
    for (size_t step = 0, j = 0; step < std::max(n, key_.size()); ++step, j = (j + 1) % key_.size()) {
      begin[i] = (begin[i] ^ (mixed(begin[i - 1]) * 1664525)) + key_[j] + static_cast<uint32_t>(j);
      advance();
    }
    for (size_t step = 0; step + 1 < n; ++step) {
      begin[i] = (begin[i] ^ (mixed(begin[i - 1]) * 1566083941)) - static_cast<uint32_t>(i);
      advance();
    }
    begin[0] = uint32_t{1} << 31;
  }

 private:
  static uint32_t mixed(uint32_t word) { return word ^ (word >> 30); }
  const std::vector<uint32_t> key_;
};

std::vector<uint32_t> words_of(uint64_t seed) {
  std::vector<uint32_t> words = {static_cast<uint32_t>(seed)};
  if (seed >> 32 != 0) words.push_back(static_cast<uint32_t>(seed >> 32));
  return words;
}

}  // namespace

PythonRandom::PythonRandom(uint64_t seed) {
  KeySequence key(words_of(seed));
  engine_.seed(key);
}

uint32_t PythonRandom::word() {
  ++words_;
  return static_cast<uint32_t>(engine_());
}

void PythonRandom::discard(uint64_t words) {
  engine_.discard(words);
  words_ += words;
}

double PythonRandom::random() {
  const uint64_t high = word() >> 5, low = word() >> 6;
  return static_cast<double>(high << 26 | low) / static_cast<double>(uint64_t{1} << 53);
}

uint64_t PythonRandom::below(uint64_t bound) {
  const auto bits = static_cast<int>(std::bit_width(bound));
  const auto draw = [&]() -> uint64_t {
    if (bits <= 32) return word() >> (32 - bits);
    const uint64_t low = word();
    return low | static_cast<uint64_t>(word() >> (64 - bits)) << 32;
  };
  uint64_t value = draw();
  while (value >= bound) value = draw();
  return value;
}

// Draws from a list of what is left, or by rejection where Python takes that for cheaper: both differ in
// their draws.
std::vector<size_t> PythonRandom::sample(size_t size, size_t count) {
  size_t most = 21;  // of a list
  if (count > 5) {
    size_t power = 1;
    while (power < 3 * count) power *= 4;
    most += power;
  }
  std::vector<size_t> drawn;
  if (size <= most) {
    std::vector<size_t> left(size);
    std::iota(left.begin(), left.end(), size_t{0});
    for (size_t i = 0; i < count; ++i) {
      size_t& chosen = left[below(size - i)];
      drawn.push_back(chosen);
      chosen = left[size - i - 1];
    }
    return drawn;
  }
  while (drawn.size() < count) {
    const size_t value = below(size);
    if (std::ranges::find(drawn, value) == drawn.end()) drawn.push_back(value);
  }
  return drawn;
}

}  // namespace trl::base
