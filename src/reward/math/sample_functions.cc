#include "reward/math/sample_functions.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "reward/math/sample_whole.h"

namespace trl::reward::math {

namespace {

struct Function {
  std::string_view name;
  Complex (*value)(Complex);
};

// Has the branches of SymPy: acot(x) = atan(1/x), and so on.
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

Sample logarithm(const Sample& x, const Sample& base) {
  const auto log = [](Complex value) { return std::log(value); };
  const Sample upper = at_value(log, x);
  const Sample lower = at_value(log, base);
  const Complex value = upper.value / lower.value;
  const double size = std::abs(value);
  return {positive_zero(value),
          (upper.error + size * lower.error) / std::abs(lower.value) + 2 * kRounding * size};
}

Sample absolute(const Sample& x, uint64_t prime) {
  Sample out = x;
  out.value = std::abs(x.value);
  const bool is_real = x.value.imag() == 0;
  if (!is_real) out.residue.reset();
  if (is_real && out.residue && x.value.real() < 0) out.residue = (prime - *out.residue) % prime;
  return out;
}

Sample extreme(std::span<const Sample> values, bool largest) {
  const auto is_real = [](const Sample& x) { return x.value.imag() == 0; };
  if (values.empty() || !std::ranges::all_of(values, is_real)) return undefined_sample();
  const auto real = [](const Sample& x) { return x.value.real(); };
  return largest ? *std::ranges::max_element(values, {}, real) : *std::ranges::min_element(values, {}, real);
}

}  // namespace

Sample at_value(Complex (*f)(Complex), const Sample& x) {
  const double step = x.error + kRounding * std::abs(x.value);
  const Complex value = positive_zero(f(positive_zero(x.value)));
  return {value, std::abs(f(positive_zero(x.value + step)) - value) + 4 * kRounding * std::abs(value)};
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
  if (x.size() == 2 && name == "mod") return remainder(x[0], x[1], prime);
  if (x.size() == 2 && name == "binomial") return binomial(x[0], x[1], prime);
  if (x.size() != 1) return undefined_sample();
  if (name == "abs") return absolute(x[0], prime);
  if (name == "floor" || name == "ceil") return rounded(x[0], name == "ceil", prime);
  if (name == "factorial") return factorial(x[0], prime);
  const auto found = std::ranges::find(kFunctions, name, &Function::name);
  return found == kFunctions.end() ? undefined_sample() : at_value(found->value, x[0]);
}

}  // namespace trl::reward::math
