// Functions and powers of sampled values.
#pragma once
#include <limits>
#include <span>
#include <string_view>

#include "reward/math/sample.h"

namespace trl::reward::math {

inline constexpr double kRounding = std::numeric_limits<double>::epsilon();

// Returns an undefined value for a name that it does not know, and for arguments outside of the function's
// domain. prime: that of the residues.
Sample apply_function(std::string_view name, std::span<const Sample> arguments, uint64_t prime);
Sample raise(const Sample& base, const Sample& exponent, uint64_t prime);

Sample undefined_sample();

using Complex = std::complex<double>;
// Removes the sign of a zero, which would choose the side of a branch cut.
inline Complex positive_zero(Complex value) { return value + Complex(0.0, 0.0); }
// Returns f at a value, with the change over its error as the error of the result.
Sample at_value(Complex (*f)(Complex), const Sample& x);

}  // namespace trl::reward::math
