// Whether two answers say the same, by the rules of math_verify 0.9 (grader.py), which TRL's rewards use.
#pragma once
#include "reward/math/node.h"

namespace trl::reward::math {

// Compares an answer with the solution. The order matters: x = 5 as the solution accepts 5, an inequality
// accepts its interval, a tuple accepts a list in its order. Decimals count to six digits after the point,
// except beside integers; symbols are real numbers.
bool same_answer(const Node& solution, const Node& answer);

// The parts of it.
bool same_value(const Node& a, const Node& b);       // of expressions, by decimals and percentages as above
bool same_expression(const Node& a, const Node& b);  // exactly, at sampled points
bool same_relation(const Node& a, const Node& b);    // 2y = 4x is y = 2x; x > 1 is 1 < x
bool same_set(const Node& solution, const Node& answer);  // at least one of them is one

}  // namespace trl::reward::math
