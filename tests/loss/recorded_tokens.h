// Recorded matrices of tokens, row by row, and those of their tokens that count.
#pragma once
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/json/json.h"
#include "support/recorded.h"

namespace trl::test {

// null and "nan" stand for NaN.
inline double recorded_number(const base::Json& value) {
  return value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN();
}

struct RecordedTokens {
  struct At {
    size_t row, token;
  };
  std::vector<At> at;
  std::vector<int32_t> rows;
  size_t row_count = 0;

  RecordedTokens() = default;
  // Tokens where both masks are 1; tool_mask may be null, and its rows shorter.
  explicit RecordedTokens(const base::Json& mask, const base::Json& tool_mask = nullptr)
      : row_count(mask.size()) {
    for (size_t r = 0; r < mask.size(); ++r) {
      for (size_t t = 0; t < mask[r].size(); ++t) {
        if (mask[r][t] == 0 || (!tool_mask.is_null() && tool_mask[r][t] == 0)) continue;
        at.push_back({r, t});
        rows.push_back(static_cast<int32_t>(r));
      }
    }
  }

  // The numbers of the tokens that count; a row of one number gives it to all tokens. None for null.
  template <typename T = float>
  std::vector<T> of(const base::Json& matrix) const {
    std::vector<T> numbers;
    if (matrix.is_null()) return numbers;
    for (const auto [row, token] : at) {
      const base::Json& values = matrix[row];
      numbers.push_back(static_cast<T>(recorded_number(values[values.size() == 1 ? 0 : token])));
    }
    return numbers;
  }
};

// Turns a mask of padding into one of tokens.
inline base::Json without_padding(const base::Json& padding) {
  base::Json mask = padding;
  for (base::Json& row : mask)
    for (base::Json& value : row) value = 1 - value.get<int>();
  return mask;
}

inline void expect_numbers(std::span<const double> got, std::span<const double> want, const char* name) {
  ASSERT_EQ(got.size(), want.size()) << name;
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_TRUE(close(got[i], want[i], limits::function))
        << name << " " << i << ": " << got[i] << " instead of " << want[i];
}

}  // namespace trl::test
