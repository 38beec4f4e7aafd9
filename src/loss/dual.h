// Numbers with their derivatives by two variables (forward-mode differentiation): a loss is written once, and
// its gradient follows from it.
#pragma once
#include <cmath>

namespace trl::loss {

struct Dual {
  double value = 0;
  double by[2] = {0, 0};

  Dual() = default;
  Dual(double constant) : value(constant) {}  // NOLINT: constants mix with variables in formulas
  Dual(double v, double by_first, double by_second) : value(v), by{by_first, by_second} {}
  static Dual variable(double v, int which) { return {v, which == 0 ? 1.0 : 0.0, which == 1 ? 1.0 : 0.0}; }
};

// f(x), given its value and its slope at x.
inline Dual chained(const Dual& x, double value, double slope) {
  return {value, slope * x.by[0], slope * x.by[1]};
}

inline Dual operator+(const Dual& a, const Dual& b) {
  return {a.value + b.value, a.by[0] + b.by[0], a.by[1] + b.by[1]};
}
inline Dual operator-(const Dual& a) { return {-a.value, -a.by[0], -a.by[1]}; }
inline Dual operator-(const Dual& a, const Dual& b) { return a + -b; }
inline Dual operator*(const Dual& a, const Dual& b) {
  return {a.value * b.value, a.by[0] * b.value + a.value * b.by[0], a.by[1] * b.value + a.value * b.by[1]};
}
inline Dual operator/(const Dual& a, double b) { return a * (1 / b); }

inline Dual square(const Dual& x) { return x * x; }
inline Dual exp(const Dual& x) {
  const double value = std::exp(x.value);
  return chained(x, value, value);
}
inline Dual at_least_zero(const Dual& x) { return x.value > 0 ? x : Dual(0); }
// At the bound x still counts, with its derivatives, as in torch.clamp; a NaN stays one.
inline Dual at_least(const Dual& x, double least) { return x.value < least ? Dual(least) : x; }
inline Dual at_most(const Dual& x, double most) { return x.value > most ? Dual(most) : x; }
// The greater of both; the first if they are equal.
inline Dual greater(const Dual& a, const Dual& b) { return b.value > a.value ? b : a; }

inline double sigmoid(double x) { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }
inline double log_sigmoid(double x) {
  return x >= 0 ? -std::log1p(std::exp(-x)) : x - std::log1p(std::exp(x));
}
inline Dual sigmoid(const Dual& x) {
  const double s = sigmoid(x.value);
  return chained(x, s, s * sigmoid(-x.value));
}
inline Dual log_sigmoid(const Dual& x) { return chained(x, log_sigmoid(x.value), sigmoid(-x.value)); }

}  // namespace trl::loss
