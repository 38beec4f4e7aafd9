// LaTeX or plain arithmetic -> a tree. The grammar is that of latex2sympy2_extended as far as answers need
// it: numbers, + - * / ^, roots, functions, symbols, relations, tuples, intervals, sets, small matrices.
#pragma once
#include <optional>
#include <string_view>

#include "reward/math/node.h"

namespace trl::reward::math {

enum class Dialect {
  latex,    // of a completion: \frac and \sqrt need their braces
  lenient,  // of a solution: \frac12, \sqrt2 and x^(2) are read, too
  plain,    // 3*(4+5)^2: digits, + - * / ^ ** and parentheses
};

inline constexpr size_t kMaxAnswer = 2048;  // bytes; a longer answer is not read
inline constexpr int kMaxDepth = 96;        // of calls of the grammar: half as many nested groups
inline constexpr int kMaxLinks = 256;       // quotients, powers and factorials
inline constexpr size_t kMaxElements = 32;  // of a set, a tuple, a matrix

// Returns nothing for a text outside the grammar or beyond these limits. Takes time proportional to its
// length. clean: the result of clean_latex, or plain arithmetic.
std::optional<Node> parse(std::string_view clean, Dialect dialect);

}  // namespace trl::reward::math
