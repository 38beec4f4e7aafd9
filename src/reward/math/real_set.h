// Sets of real numbers as disjoint intervals.
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

// Returns the numbers of a set whose ends are constants, or those for which a relation such as 1 < x <= 2 or
// x != 0 holds; nothing for any other.
std::optional<RealSet> real_set(const Node& node);
bool same_numbers(const RealSet& a, const RealSet& b);  // ends to nine digits

// Returns a constant, which may be infinite; nothing for what is not real or has symbols.
std::optional<double> constant_value(const Node& expression);
// (2, 1) is a pair, because the interval would be empty.
bool can_be_interval(const Node& pair);

}  // namespace trl::reward::math
