// What a run without memory_budget is predicted to take.
#pragma once
#include <optional>
#include <vector>

#include "base/json.h"
#include "capi/run_size.h"
#include "engine/engine.h"

namespace trl::capi {

// The plan of a run, without times; nothing: what such a run takes is not planned.
std::optional<base::Json> plan_where_possible(const config::Config& config, const RunSize& size,
                                              int64_t embedding_rows, const std::vector<int32_t>& new_tokens);

// The peak, which the log tells too; 0: it is not known. all_read: the rows are there, so the longest of them
// counts in place of max_length. evaluation: nullable.
engine::Prediction expected_peak(const config::Config& config, const config::TrainingArguments& training,
                                 Batches& rows, Batches* evaluation, bool all_read, int64_t embedding_rows,
                                 const std::vector<int32_t>& new_tokens);

}  // namespace trl::capi
