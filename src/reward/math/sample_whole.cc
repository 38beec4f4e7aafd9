#include "reward/math/sample_whole.h"

#include <cmath>
#include <limits>
#include <numeric>

namespace trl::reward::math {

namespace {

constexpr double kLargestWhole = 9007199254740992.0;  // 2^53
constexpr int64_t kLargestFactorial = 1000;           // with a residue

Complex gamma_of(Complex x) {
  return x.imag() == 0 ? Complex(std::tgamma(x.real()), 0.0) : undefined_sample().value;
}

}  // namespace

Sample undefined_sample() {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  return {{kNan, kNan}, kNan};
}

Sample integer_sample(int64_t value, uint64_t prime) {
  const uint64_t size = static_cast<uint64_t>(std::abs(value)) % prime;
  return {{static_cast<double>(value), 0.0}, 0, value < 0 && size != 0 ? prime - size : size};
}

std::optional<int64_t> whole_number(const Sample& sample, uint64_t prime) {
  const double value = sample.value.real();
  if (!sample.residue || sample.value.imag() != 0 || !(std::abs(value) < kLargestWhole)) return std::nullopt;
  const auto whole = static_cast<int64_t>(std::llround(value));
  if (!(std::abs(value - static_cast<double>(whole)) <= sample.error + kRounding)) return std::nullopt;
  return integer_sample(whole, prime).residue == sample.residue ? std::optional(whole) : std::nullopt;
}

Sample factorial(const Sample& x, uint64_t prime) {
  Sample next = x;
  next.value += 1.0;
  Sample out = at_value(gamma_of, next);
  const std::optional<int64_t> count = whole_number(x, prime);
  if (!count) return out;
  if (*count < 0) return undefined_sample();
  if (*count > kLargestFactorial) return out;
  uint64_t product = 1;
  for (int64_t i = 2; i <= *count; ++i) product = product * static_cast<uint64_t>(i) % prime;
  out.residue = product;
  return out;
}

Sample binomial(const Sample& n, const Sample& k, uint64_t prime) {
  const std::optional<int64_t> count = whole_number(k, prime);
  if (!count || *count < 0 || *count > kLargestFactorial) {
    Sample rest = n;
    rest.value -= k.value;
    rest.error += k.error + kRounding * std::abs(n.value);
    rest.residue.reset();
    const Sample a = factorial(n, prime), b = factorial(k, prime), c = factorial(rest, prime);
    const Complex value = a.value / (b.value * c.value);
    const double relative =
        a.error / std::abs(a.value) + b.error / std::abs(b.value) + c.error / std::abs(c.value);
    return {value, std::abs(value) * (relative + 4 * kRounding)};
  }
  Sample out = integer_sample(1, prime);
  double relative = 0;
  for (int64_t i = 0; i < *count; ++i) {
    const auto step = static_cast<uint64_t>(i);
    const Complex factor = n.value - static_cast<double>(i);
    out.value *= factor / static_cast<double>(i + 1);
    relative += factor == 0.0 ? 0 : n.error / std::abs(factor) + 4 * kRounding;
    const std::optional<uint64_t> inverse = inverse_modulo(step + 1, prime);
    if (out.residue && n.residue && inverse)
      out.residue = *out.residue * ((*n.residue + prime - step) % prime) % prime * *inverse % prime;
    else
      out.residue.reset();
  }
  out.error = std::abs(out.value) * relative;
  return out;
}

Sample rounded(const Sample& x, bool up, uint64_t prime) {
  if (x.value.imag() != 0 || !(std::abs(x.value) < kLargestWhole)) return undefined_sample();
  const double value = x.value.real();
  return integer_sample(static_cast<int64_t>(up ? std::ceil(value) : std::floor(value)), prime);
}

Sample remainder(const Sample& a, const Sample& b, uint64_t prime) {
  const std::optional<int64_t> upper = whole_number(a, prime);
  const std::optional<int64_t> lower = whole_number(b, prime);
  if (!upper || !lower || *lower == 0) return undefined_sample();
  const int64_t rest = *upper % *lower;
  return integer_sample(rest != 0 && (rest < 0) != (*lower < 0) ? rest + *lower : rest, prime);
}

Sample divisor(std::span<const Sample> values, bool least_multiple, uint64_t prime) {
  int64_t out = 0;
  for (const Sample& value : values) {
    const std::optional<int64_t> next = whole_number(value, prime);
    if (!next) return undefined_sample();
    const int64_t common = std::gcd(out, *next);
    if (!least_multiple || out == 0)
      out = common;
    else if (common == 0 || __builtin_mul_overflow(out / common, std::abs(*next), &out))
      return undefined_sample();
  }
  return integer_sample(out, prime);
}

}  // namespace trl::reward::math
