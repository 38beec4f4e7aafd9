// The value of an expression where each symbol is some fixed number: what two expressions are compared by.
#pragma once
#include <complex>
#include <cstdint>
#include <optional>

#include "reward/math/node.h"

namespace trl::reward::math {

// Points that differ in the numbers that symbols stand for. In the first all are positive, in the second
// negative.
inline constexpr int kPoints = 6;

struct Sample {
  std::complex<double> value;  // NaN where it is not defined
  double error = 0;            // a bound of its rounding
  // The value modulo a prime of the point, exact, where only + - * / and whole powers are used.
  std::optional<uint64_t> residue = {};
};

// Takes time proportional to the size of the expression. point: 0 to kPoints - 1.
Sample sample(const Node& expression, int point);

bool is_defined(const Sample& sample);  // its value is finite

// Returns whether two values at one point are the same: exactly where both have residues, up to their
// rounding otherwise; nothing where that cannot be said.
std::optional<bool> agree(const Sample& a, const Sample& b);

}  // namespace trl::reward::math
