// Selects rows of a dataset's splits, in the notation of the datasets library: train, train[:10%],
// train[100:200]+test, train[:5%](pct1_dropremainder).
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trl::config {

struct SplitPart {
  std::string name;
  std::optional<int64_t> from, to;  // rows, or hundredths of them; negative: from the end
  bool percent = false;
  bool drop_remainder = false;  // pct1_dropremainder: a hundredth is rounded down before it is multiplied
  bool sliced() const { return from.has_value() || to.has_value(); }
};

// Returns at least one part. Throws Error(invalid_config) with the key.
std::vector<SplitPart> parse_split(std::string_view key, std::string_view split);

// The first row and the one after the last, out of this many (as in datasets' arrow_reader.py: hundredths are
// rounded half to even). Throws Error(invalid_config) if pct1_dropremainder is used with fewer than 100 rows.
struct RowRange {
  int64_t from = 0, to = 0;
};
RowRange rows_of(std::string_view key, const SplitPart& part, int64_t rows);

}  // namespace trl::config
