#include "reward/math/sample_functions.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

namespace trl::reward::math {

namespace {

using Complex = std::complex<double>;

constexpr double kLargestWhole = 9007199254740992.0;  // 2^53
constexpr int64_t kLargestFactorial = 1000;           // whose residue is computed

// Removes the sign of a zero, which would choose the side of a branch cut.
Complex positive_zero(Complex value) { return value + Complex(0.0, 0.0); }

struct Function {
  std::string_view name;
  Complex (*value)(Complex);
};

// The branches are those of SymPy: acot(x) = atan(1/x), and so on.
constexpr std::array kFunctions = {
    Function{"arccos", [](Complex x) { return std::acos(x); }},
    Function{"arccosh", [](Complex x) { return std::acosh(x); }},
    Function{"arccot", [](Complex x) { return std::atan(1.0 / x); }},
    Function{"arccsc", [](Complex x) { return std::asin(1.0 / x); }},
    Function{"arcsec", [](Complex x) { return std::acos(1.0 / x); }},
    Function{"arcsin", [](Complex x) { return std::asin(x); }},
    Function{"arcsinh", [](Complex x) { return std::asinh(x); }},
    Function{"arctan", [](Complex x) { return std::atan(x); }},
    Function{"arctanh", [](Complex x) { return std::atanh(x); }},
    Function{"cos", [](Complex x) { return std::cos(x); }},
    Function{"cosh", [](Complex x) { return std::cosh(x); }},
    Function{"cot", [](Complex x) { return 1.0 / std::tan(x); }},
    Function{"csc", [](Complex x) { return 1.0 / std::sin(x); }},
    Function{"sec", [](Complex x) { return 1.0 / std::cos(x); }},
    Function{"sin", [](Complex x) { return std::sin(x); }},
    Function{"sinh", [](Complex x) { return std::sinh(x); }},
    Function{"tan", [](Complex x) { return std::tan(x); }},
    Function{"tanh", [](Complex x) { return std::tanh(x); }},
};

// f at a value, with the change over its error as the error of the result.
Sample at_value(Complex (*f)(Complex), const Sample& x) {
  const double step = x.error + kRounding * std::abs(x.value);
  const Complex value = positive_zero(f(positive_zero(x.value)));
  return {value, std::abs(f(positive_zero(x.value + step)) - value) + 4 * kRounding * std::abs(value)};
}

Complex gamma_of(Complex x) {
  return x.imag() == 0 ? Complex(std::tgamma(x.real()), 0.0) : undefined_sample().value;
}

Sample logarithm(const Sample& x, const Sample& base) {
  const auto log = [](Complex value) { return std::log(value); };
  const Sample upper = at_value(log, x);
  const Sample lower = at_value(log, base);
  const Complex value = upper.value / lower.value;
  const double size = std::abs(value);
  return {positive_zero(value),
          (upper.error + size * lower.error) / std::abs(lower.value) + 2 * kRounding * size};
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

// n (n - 1) ... (n - k + 1) / k!, for any n where k is a small whole number; by factorials elsewhere.
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

Sample absolute(const Sample& x, uint64_t prime) {
  Sample out = x;
  out.value = std::abs(x.value);
  const bool is_real = x.value.imag() == 0;
  if (!is_real) out.residue.reset();
  if (is_real && out.residue && x.value.real() < 0) out.residue = (prime - *out.residue) % prime;
  return out;
}

Sample rounded(const Sample& x, bool up, uint64_t prime) {
  if (x.value.imag() != 0 || !(std::abs(x.value) < kLargestWhole)) return undefined_sample();
  const double value = x.value.real();
  return integer_sample(static_cast<int64_t>(up ? std::ceil(value) : std::floor(value)), prime);
}

Sample extreme(std::span<const Sample> values, bool largest) {
  const auto is_real = [](const Sample& x) { return x.value.imag() == 0; };
  if (values.empty() || !std::ranges::all_of(values, is_real)) return undefined_sample();
  const auto real = [](const Sample& x) { return x.value.real(); };
  return largest ? *std::ranges::max_element(values, {}, real) : *std::ranges::min_element(values, {}, real);
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

Sample raise(const Sample& base, const Sample& exponent, uint64_t prime) {
  const std::optional<int64_t> whole = whole_number(exponent, prime);
  const auto power = [&](Complex x, Complex y) {
    const bool real = x.imag() == 0 && y.imag() == 0 && (x.real() >= 0 || whole.has_value());
    return positive_zero(real ? Complex(std::pow(x.real(), y.real()), 0.0) : std::pow(x, y));
  };
  Sample out{power(base.value, exponent.value)};
  const double base_step = base.error + kRounding * std::abs(base.value);
  out.error = std::abs(power(base.value + base_step, exponent.value) - out.value) +
              4 * kRounding * std::abs(out.value);
  if (!whole) {
    const double step = exponent.error + kRounding * std::abs(exponent.value);
    out.error += std::abs(power(base.value, exponent.value + step) - out.value);
  } else if (base.residue) {
    const std::optional<uint64_t> from = *whole < 0 ? inverse_modulo(*base.residue, prime) : base.residue;
    if (!from) return undefined_sample();
    out.residue = power_modulo(*from, static_cast<uint64_t>(std::abs(*whole)), prime);
  }
  return out;
}

Sample apply_function(std::string_view name, std::span<const Sample> x, uint64_t prime) {
  if (name == "max" || name == "min") return extreme(x, name == "max");
  if (name == "gcd" || name == "lcm") return divisor(x, name == "lcm", prime);
  if (x.size() == 2 && name == "log") return logarithm(x[0], x[1]);
  if (x.size() == 2 && name == "binomial") return binomial(x[0], x[1], prime);
  if (x.size() != 1) return undefined_sample();
  if (name == "abs") return absolute(x[0], prime);
  if (name == "floor" || name == "ceil") return rounded(x[0], name == "ceil", prime);
  if (name == "factorial") return factorial(x[0], prime);
  const auto found = std::ranges::find(kFunctions, name, &Function::name);
  return found == kFunctions.end() ? undefined_sample() : at_value(found->value, x[0]);
}

}  // namespace trl::reward::math
