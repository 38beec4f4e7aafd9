// Compares answers by the rules of math_verify 0.9 (grader.py), which TRL's rewards use.
#pragma once
#include "reward/math/node.h"

namespace trl::reward::math {

// Compares an answer with the solution. The order matters: the solution x = 5 accepts 5, an inequality
// accepts its interval, a tuple accepts a list in its order. Decimals count to six digits after the point,
// but a decimal equals an integer only exactly. Symbols are real numbers.
bool same_answer(const Node& solution, const Node& answer);

// Compare parts of answers.
bool same_value(const Node& a, const Node& b);       // of expressions, by decimals and percentages as above
bool same_expression(const Node& a, const Node& b);  // exactly, at sampled points
bool same_relation(const Node& a, const Node& b);    // 2y = 4x is y = 2x; x > 1 is 1 < x
bool same_set(const Node& solution, const Node& answer);  // one of them, at least, is a set

}  // namespace trl::reward::math
