// Functions of whole numbers; factorials and binomials are continued to all real numbers.
#pragma once
#include <cstdint>
#include <optional>
#include <span>

#include "reward/math/sample_functions.h"

namespace trl::reward::math {

Sample integer_sample(int64_t value, uint64_t prime);
// Returns the value if it is a whole number, with its residue, that fits 53 bits.
std::optional<int64_t> whole_number(const Sample& sample, uint64_t prime);

Sample factorial(const Sample& x, uint64_t prime);  // gamma(x + 1)
// Computes n (n - 1) ... (n - k + 1) / k! if k is a small whole number, and n! / (k! (n - k)!) if not.
Sample binomial(const Sample& n, const Sample& k, uint64_t prime);
Sample rounded(const Sample& x, bool up, uint64_t prime);
Sample remainder(const Sample& a, const Sample& b, uint64_t prime);  // has the sign of b
Sample divisor(std::span<const Sample> values, bool least_multiple, uint64_t prime);

}  // namespace trl::reward::math
