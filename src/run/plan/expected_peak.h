// Predicts the memory of a run without memory_budget.
#pragma once
#include <optional>
#include <vector>

#include "base/json/json.h"
#include "engine/engine.h"
#include "run/plan/size.h"

namespace trl::run {

// Returns the plan of a run, without times; nullopt: such a run is not planned.
std::optional<base::Json> plan_where_possible(Environment& environment, const config::RunOptions& options,
                                              const RunSize& size, int64_t embedding_rows,
                                              const std::vector<int32_t>& new_tokens);

struct ExpectedPeak {
  engine::Prediction prediction;  // peak 0: not known
  RunSize size;                   // the size that the prediction is for
  int64_t least = 0;              // bytes of the process before its model is opened
};

// Predicts the peak, and logs it. Throws Error(io) if the disks lack room for the run. all_read: the rows
// have been read, so the longest of them replaces max_length. evaluation: nullable.
ExpectedPeak expected_peak(Environment& environment, const config::RunOptions& options, Batches& rows,
                           Batches* evaluation, bool all_read, int64_t embedding_rows,
                           const std::vector<int32_t>& new_tokens);

// Predicts, at the end of the run, the peak for the largest micro-batches that it had. They are no larger
// than those of the earlier prediction. If they are not known, returns that one.
ExpectedPeak peak_of_what_ran(Environment& environment, const config::RunOptions& options,
                              const ExpectedPeak& expected, const BatchSize& trained,
                              const BatchSize& evaluated, int64_t embedding_rows,
                              const std::vector<int32_t>& new_tokens);

}  // namespace trl::run
