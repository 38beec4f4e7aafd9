// Least squares of relative errors: which coefficients of a few terms explain what was measured.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>
#include <vector>

namespace trl::bench {

struct Point {
  std::vector<double> terms;
  double value;
};

struct Fit {
  std::vector<double> coefficients;
  double worst = 0;  // largest relative error
};

inline Fit fit(const std::vector<Point>& points) {
  constexpr size_t kMost = 4;
  const size_t n = points.at(0).terms.size();
  if (n < 1 || n > kMost || points.size() < n) throw std::runtime_error("too few points, or too many terms");
  // Columns of one size first, or the normal equations would lose what is small.
  std::array<double, kMost> scale{};
  for (const Point& p : points)
    for (size_t i = 0; i < n; ++i) scale[i] = std::max(scale[i], std::abs(p.terms[i] / p.value));
  std::array<std::array<double, kMost + 1>, kMost> a{};  // the last column is the right side
  for (const Point& p : points) {
    for (size_t i = 0; i < n; ++i) {
      const double row = p.terms[i] / (p.value * scale[i]);
      for (size_t j = 0; j < n; ++j) a[i][j] += row * p.terms[j] / (p.value * scale[j]);
      a[i][kMost] += row;
    }
  }
  for (size_t i = 0; i < n; ++i) {  // Gauss and Jordan, with pivots
    size_t pivot = i;
    for (size_t r = i; r < n; ++r)
      if (std::abs(a[r][i]) > std::abs(a[pivot][i])) pivot = r;
    std::swap(a[i], a[pivot]);
    if (std::abs(a[i][i]) < 1e-14) throw std::runtime_error("the points do not tell the terms apart");
    for (size_t r = 0; r < n; ++r) {
      if (r == i) continue;
      const double factor = a[r][i] / a[i][i];
      for (size_t c = i; c <= kMost; ++c) a[r][c] -= factor * a[i][c];
    }
  }
  Fit out;
  for (size_t i = 0; i < n; ++i) out.coefficients.push_back(a[i][kMost] / a[i][i] / scale[i]);
  for (const Point& p : points) {
    double sum = 0;
    for (size_t i = 0; i < n; ++i) sum += out.coefficients[i] * p.terms[i];
    out.worst = std::max(out.worst, std::abs(sum / p.value - 1));
  }
  return out;
}

}  // namespace trl::bench
