// Derivatives by finite differences.
#pragma once
#include <functional>
#include <vector>

namespace trl::test {

// The derivative of f at x by the number `at`.
inline double slope(const std::function<double(const std::vector<double>&)>& f, std::vector<double> x,
                    size_t at = 0) {
  constexpr double kStep = 1e-6;
  x[at] += kStep;
  const double above = f(x);
  x[at] -= 2 * kStep;
  return (above - f(x)) / (2 * kStep);
}

}  // namespace trl::test
