// A set of characters as an automaton over the bytes of UTF-8.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "text/constraint/character_set.h"

namespace trl::text {

class ByteSteps {
 public:
  // Not places. kNone: no character of the set continues so. kDone: a character of the set ends.
  static constexpr uint16_t kNone = 0xFFFF, kDone = 0xFFFE;

  // Surrogates are left out: no text has any.
  explicit ByteSteps(const CharacterSet& set);
  // A character begins at place 0. From each place that can be reached, some character ends.
  uint16_t next(uint16_t place, uint8_t byte) const { return rows_[place][byte]; }
  bool empty() const { return empty_; }
  size_t places() const { return rows_.size(); }

 private:
  using Row = std::array<uint16_t, 256>;
  uint16_t rest(const std::vector<CharacterSet::Range>& ranges, char32_t first, int bytes);
  uint16_t all(int bytes);
  uint16_t place_of(const Row& row);

  std::vector<Row> rows_;
  std::map<Row, uint16_t> places_;  // while it is made
  bool empty_ = true;
};

}  // namespace trl::text
