#include "run/rows/position_check.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <span>

#include "base/error.h"

namespace trl::run {

namespace {

// Returns "dataset row 2" or "a sequence of the packed dataset rows 2, 3".
std::string name_of(const data::LongRow& row, std::string_view what) {
  constexpr size_t kNamed = 16;
  if (row.rows.size() == 1) return fmt::format("{} row {}", what, row.rows[0]);
  const std::span<const int64_t> all = row.rows;
  std::string out = fmt::format("a sequence of the packed {} rows {}", what,
                                fmt::join(all.first(std::min(kNamed, all.size())), ", "));
  if (all.size() > kNamed) out += fmt::format(" and {} more", all.size() - kNamed);
  return out;
}

}  // namespace

void check_positions(const config::Config& config, int64_t positions, Batches& rows, Batches* evaluation) {
  constexpr std::string_view kKey = "max_length";
  const std::optional<int64_t> limit = config.get_optional_int(kKey);
  if (positions == 0 || (limit && *limit <= positions)) return;
  const auto check = [&](Batches& batches, std::string_view what) {
    const std::optional<data::LongRow> beyond = batches.longer_than(positions);
    if (!beyond) return;
    fail_key(kKey,
             "{}: {}: {} has {} tokens, and the model has learned {} positions: give {}: {}, so that {}",
             kKey, config.get(kKey), name_of(*beyond, what), beyond->tokens, positions, kKey, positions,
             beyond->rows.size() == 1 ? "longer rows are cut" : "no pack is longer");
  };
  check(rows, "dataset");
  if (evaluation != nullptr) check(*evaluation, "evaluation");
}

}  // namespace trl::run
