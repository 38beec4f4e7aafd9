// Final weights against recorded ones, by what training changed: the error of a tensor is at most a share of
// the distance between its first and its last values.
#pragma once
#include <algorithm>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "support/recorded.h"

namespace trl::test {

// A recorded tensor may hold every n-th column alone; n follows from the two widths.
inline size_t column_step(size_t width, size_t recorded) {
  const size_t step = recorded == 0 ? 1 : (width + recorded - 1) / recorded;
  EXPECT_EQ((width + step - 1) / step, recorded) << "columns of a tensor " << width << " wide";
  return step;
}

inline std::vector<float> recorded_columns(std::span<const float> values, size_t width, size_t recorded) {
  const size_t step = column_step(width, recorded);
  std::vector<float> chosen;
  for (size_t row = 0; row < values.size(); row += width) {
    for (size_t column = 0; column < width; column += step) chosen.push_back(values[row + column]);
  }
  return chosen;
}

inline double distance(std::span<const float> a, std::span<const float> b) {
  EXPECT_EQ(a.size(), b.size());
  double square = 0;
  for (size_t i = 0; i < a.size(); ++i) square += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
  return std::sqrt(square);
}

// The share of a tensor's change. wide: the run's relative_tolerance, above 1e-3 for bf16 autocast. The
// gradient of a bias of the keys is rounding alone, for softmax does not see a shift of all scores, and Adam
// makes steps of full size of it: in bf16 two runs of TRL differ there by half of the change, and other
// kernels by all of it. The bias of the queries is small for the same reason, and bf16 leaves it 0.12 apart
// with attention in plain operators.
inline double share_of_change(const std::string& name, double wide) {
  // GPT-2 has the bias of the keys in one tensor with those of the queries and values.
  const bool keys = name.ends_with("k_proj.bias") || name.ends_with("c_attn.bias");
  if (wide <= 1e-3) return keys ? 2e-2 : limits::kChange;
  if (name.ends_with("q_proj.bias")) return 0.15;
  return keys ? 1.5 : 0.1;
}

// apart: so many values, those with the largest errors, are left out.
inline double distance_but(std::span<const float> a, std::span<const float> b, size_t apart) {
  std::vector<double> squares;
  for (size_t i = 0; i < a.size(); ++i) squares.push_back((double{a[i]} - b[i]) * (double{a[i]} - b[i]));
  std::sort(squares.begin(), squares.end());
  squares.resize(squares.size() - std::min(apart, squares.size()));
  return std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0));
}

inline void expect_near_by_change(std::span<const float> got, std::span<const float> start,
                                  std::span<const float> want, double share, const std::string& what,
                                  size_t apart = 0) {
  const std::vector<float> zeros(want.size());
  EXPECT_EQ(got.size(), want.size());
  const double error = distance_but(got, want, apart), changed = distance(want, start);
  EXPECT_LE(error, share * changed + 1e-8 * distance(want, zeros))
      << what << ": the change of " << changed << " is off by " << error;
}

// want: norm and mean of a final tensor, nine digits of each.
template <class Json>
void expect_fingerprint(std::span<const float> got, std::span<const float> start, const Json& want,
                        double share, const std::string& name) {
  const double changed = distance(got, start), count = static_cast<double>(got.size());
  const double norm = distance(got, std::vector<float>(got.size())), norm_want = want["norm"];
  double sum = 0;
  for (const float value : got) sum += value;
  EXPECT_LE(std::abs(norm - norm_want), share * changed + 1e-8 * norm_want) << name << ": norm";
  EXPECT_LE(std::abs(sum / count - want["mean"].template get<double>()),
            share * changed / std::sqrt(count) + 1e-8 * norm_want / std::sqrt(count))
      << name << ": mean";
}

// Its first values, where no more of a tensor is recorded. Of a bias of the keys these few may be those that
// rounding alone moves: they are held to the change of the tensor, which is what the share is of.
// apart: so many are left out. In bfloat16 rounding decides the sign of a small gradient, and Adam's first
// steps have full size in either direction: with another attention TRL's own are 0.05 to 0.09 of a tensor's
// change apart, which is one value in a hundred, but a third of the change of eight where one is so.
template <class Json>
void expect_first_values(std::span<const float> got, std::span<const float> start, const Json& want,
                         double share, const std::string& name, size_t apart = 0) {
  const std::vector<float> first = want["first"];
  if (name.ends_with("k_proj.bias")) {
    EXPECT_LE(distance(got.first(first.size()), first), share * distance(got, start)) << name;
    return;
  }
  expect_near_by_change(got.first(first.size()), start.first(first.size()), first, share,
                        name + ": first values", apart);
}

}  // namespace trl::test
