// Represents sets of real numbers as disjoint intervals.
#pragma once
#include <optional>
#include <vector>

#include "reward/math/node.h"

namespace trl::reward::math {

struct Piece {
  double low = 0, high = 0;  // infinite at an open end
  bool low_open = false, high_open = false;
};

// Sorted; between two pieces there is a gap.
using RealSet = std::vector<Piece>;

// Returns the numbers of a set with constant ends, or the solutions of a relation such as 1 < x <= 2 or x !=
// 0; nothing for any other node.
std::optional<RealSet> real_set(const Node& node);
bool same_numbers(const RealSet& a, const RealSet& b);  // ends to nine digits

// Returns a constant, possibly infinite; nothing for a value that is not real or depends on a symbol.
std::optional<double> constant_value(const Node& expression);
// Returns false for (2, 1), which is a pair, because the interval would be empty.
bool can_be_interval(const Node& pair);

}  // namespace trl::reward::math
