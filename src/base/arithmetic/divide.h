#pragma once
#include <cstdint>

namespace trl::base {

// Returns a / b, rounded up. a, b: not negative.
inline int64_t divide_up(int64_t a, int64_t b) { return a / b + (a % b > 0 ? 1 : 0); }

}  // namespace trl::base
