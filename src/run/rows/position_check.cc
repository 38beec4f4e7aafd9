#include "run/rows/position_check.h"

#include "base/error.h"

namespace trl::run {

void check_positions(const config::Config& config, int64_t positions, Batches& rows, Batches* evaluation) {
  constexpr std::string_view kKey = "max_length";
  const std::optional<int64_t> limit = config.get_optional_int(kKey);
  if (positions == 0 || (limit && *limit <= positions)) return;
  const auto check = [&](Batches& batches, std::string_view what) {
    const std::optional<data::LongRow> beyond = batches.longer_than(positions);
    if (!beyond) return;
    fail_key(kKey,
             "{}: {}: {} row {} has {} tokens, and the model has learned {} positions: give {}: {}, so that "
             "longer rows are cut",
             kKey, config.get(kKey), what, beyond->row, beyond->tokens, positions, kKey, positions);
  };
  check(rows, "dataset");
  if (evaluation != nullptr) check(*evaluation, "evaluation");
}

}  // namespace trl::run
