// Evaluates expressions with a fixed number for each symbol, to compare two of them.
#pragma once
#include <complex>
#include <cstdint>
#include <optional>

#include "reward/math/node.h"

namespace trl::reward::math {

// The points give different numbers to a symbol. In the first all are positive, in the second negative.
inline constexpr int kPoints = 6;

struct Sample {
  std::complex<double> value;  // NaN: not defined
  double error = 0;            // a bound of its rounding
  // The exact value modulo a prime of the point, if it has only + - * / and whole powers.
  std::optional<uint64_t> residue = {};
};

// Takes time proportional to the size of the expression. point: 0 to kPoints - 1.
Sample sample(const Node& expression, int point);

bool is_defined(const Sample& sample);  // its value is finite

// Returns whether two values at one point are the same: exactly if both have residues, within their errors if
// not; nothing if rounding has left too few digits, or a value is not defined.
std::optional<bool> agree(const Sample& a, const Sample& b);

}  // namespace trl::reward::math
