// Functions and powers of sampled values.
#pragma once
#include <limits>
#include <optional>
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
Sample integer_sample(int64_t value, uint64_t prime);
// Returns the value if it is a whole number, with its residue, that fits 53 bits.
std::optional<int64_t> whole_number(const Sample& sample, uint64_t prime);

}  // namespace trl::reward::math
