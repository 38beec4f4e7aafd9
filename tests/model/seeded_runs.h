// What recorded cases of seeded models say of gradients.
#pragma once
#include <ATen/ATen.h>

#include "model/golden_batch.h"
#include "support/seeded_model.h"

namespace trl::test {

// [tokens]: each position's successor in its row, -100 at the end of a row.
inline at::Tensor successors(const base::Json& rows) {
  std::vector<int32_t> targets;
  for (const std::vector<int32_t> row : rows) {
    targets.insert(targets.end(), row.begin() + 1, row.end());
    targets.push_back(-100);
  }
  return int_tensor(targets);
}

// want: norm, largest value, sum of gradient * Seeded, and values evenly spread over the tensor.
inline void compare_gradient(const at::Tensor& gradient, const base::Json& want, const Seeded& seeded) {
  const at::Tensor flat = gradient.to(at::kDouble).flatten();
  const double* values = flat.data_ptr<double>();
  const int64_t count = flat.numel();
  double square = 0, largest = 0, sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    square += values[i] * values[i];
    largest = std::max(largest, std::abs(values[i]));
    sum += values[i] * seeded[static_cast<uint64_t>(i)];
  }
  const auto [floor, relative] = limits::gradient;
  EXPECT_TRUE(close(std::sqrt(square), want[0], limits::gradient)) << std::sqrt(square) << " " << want;
  const double limit = floor + relative * want[1].get<double>();
  EXPECT_NEAR(largest, want[1].get<double>(), limit);
  EXPECT_NEAR(sum, want[2].get<double>(), floor + relative * want[0].get<double>());
  const auto spread = static_cast<int64_t>(want.size()) - 3;
  for (int64_t i = 0; i < spread; ++i)
    EXPECT_NEAR(values[i * count / spread], want[static_cast<size_t>(i + 3)].get<double>(), limit) << i;
}

}  // namespace trl::test
