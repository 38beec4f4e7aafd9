// What a run without memory_budget is predicted to take.
#pragma once
#include <optional>
#include <vector>

#include "base/json/json.h"
#include "engine/engine.h"
#include "run/plan/size.h"

namespace trl::run {

// The plan of a run, without times; nothing: what such a run takes is not planned.
std::optional<base::Json> plan_where_possible(Environment& environment, const config::Config& config,
                                              const RunSize& size, int64_t embedding_rows,
                                              const std::vector<int32_t>& new_tokens);

struct ExpectedPeak {
  engine::Prediction prediction;  // peak 0: not known
  RunSize size;                   // of what it is predicted for
  int64_t least = 0;              // bytes that the process has before its model is opened
};

// The peak, which the log tells too. all_read: the rows are there, so the longest of them counts in place of
// max_length. evaluation: nullable.
ExpectedPeak expected_peak(Environment& environment, const config::Config& config,
                           const config::TrainingArguments& training, Batches& rows, Batches* evaluation,
                           bool all_read, int64_t embedding_rows, const std::vector<int32_t>& new_tokens);

// At the end of the run, the same for the largest micro-batches that it had, which are as large as those of
// which the peak is measured, or smaller. Where that cannot be told, as it was.
ExpectedPeak peak_of_what_ran(Environment& environment, const config::Config& config,
                              const ExpectedPeak& expected, const BatchSize& trained,
                              const BatchSize& evaluated, int64_t embedding_rows,
                              const std::vector<int32_t>& new_tokens);

}  // namespace trl::run
