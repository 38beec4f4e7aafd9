// PCG64 (XSL-RR 128/64, pcg-random.org) seeded through numpy's SeedSequence (after M. O'Neill's seed_seq_fe),
// and Fisher-Yates from the end with masked rejection on 32-bit draws.
#include "data/source/numpy_shuffle.h"

#include <array>
#include <bit>
#include <cstddef>
#include <numeric>
#include <utility>

namespace trl::data {

namespace {

__extension__ using uint128 = unsigned __int128;

uint128 wide(uint64_t high, uint64_t low) { return (uint128{high} << 64) | low; }

// SeedSequence(seed).generate_state(4, uint64); a pool of four words holds a 64-bit seed whole.
std::array<uint64_t, 4> seed_state(uint64_t seed) {
  uint32_t factor = 0x43b0d7e5;
  const auto hash = [&factor](uint32_t value) {
    value ^= factor;
    factor *= 0x931e8875;
    value *= factor;
    return value ^ (value >> 16);
  };
  std::array<uint32_t, 4> pool{};
  for (size_t i = 0; i < pool.size(); ++i)
    pool[i] = hash(i < 2 ? static_cast<uint32_t>(seed >> (32 * i)) : 0);
  for (size_t from = 0; from < pool.size(); ++from) {
    for (size_t to = 0; to < pool.size(); ++to) {
      if (from == to) continue;
      const uint32_t mixed = 0xca01f9ddu * pool[to] - 0x4973f715u * hash(pool[from]);
      pool[to] = mixed ^ (mixed >> 16);
    }
  }
  std::array<uint64_t, 4> state{};
  factor = 0x8b51f9dd;
  for (size_t i = 0; i < 8; ++i) {
    uint32_t value = pool[i % 4] ^ factor;
    factor *= 0x58f38ded;
    value *= factor;
    value ^= value >> 16;
    state[i / 2] |= uint64_t{value} << (i % 2 * 32);
  }
  return state;
}

}  // namespace

NumpyGenerator::NumpyGenerator(uint64_t seed) {
  const std::array<uint64_t, 4> words = seed_state(seed);
  increment_ = (wide(words[2], words[3]) << 1) | 1;
  step();
  state_ += wide(words[0], words[1]);
  step();
}

void NumpyGenerator::step() {
  state_ = state_ * wide(2549297995355413924u, 4865540595714422341u) + increment_;
}

uint64_t NumpyGenerator::next64() {
  step();
  const uint64_t folded = static_cast<uint64_t>(state_ >> 64) ^ static_cast<uint64_t>(state_);
  return std::rotr(folded, static_cast<int>(state_ >> 122));
}

// Returns the low half of a 64-bit draw first, then its high half.
uint32_t NumpyGenerator::next32() {
  if (std::exchange(half_kept_, false)) return half_;
  const uint64_t draw = next64();
  half_ = static_cast<uint32_t>(draw >> 32);
  half_kept_ = true;
  return static_cast<uint32_t>(draw);
}

// Draws from 0 ... largest, which is below 2^32.
uint32_t NumpyGenerator::up_to(uint32_t largest) {
  const uint32_t mask = static_cast<uint32_t>(std::bit_ceil(uint64_t{largest} + 1) - 1);
  for (;;) {
    const uint32_t draw = next32() & mask;
    if (draw <= largest) return draw;
  }
}

// Lemire's bounded draw, whose bound is a power of two here: no draw is rejected.
uint64_t NumpyGenerator::integer63() { return next64() >> 1; }

template <typename Index>
std::vector<Index> NumpyGenerator::permutation(int64_t n) {
  std::vector<Index> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), Index{0});
  for (size_t i = order.size(); i-- > 1;) std::swap(order[i], order[up_to(static_cast<uint32_t>(i))]);
  return order;
}

template std::vector<int64_t> NumpyGenerator::permutation(int64_t n);
template std::vector<uint32_t> NumpyGenerator::permutation(int64_t n);

}  // namespace trl::data
