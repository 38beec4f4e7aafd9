// Compares runtime.host_memory_limit with the memory of a run.
#pragma once
#include <vector>

#include "config/run_options.h"
#include "run/plan/size.h"
#include "run/rows/batch_source.h"

namespace trl::run {

// If a limit is set, refuses a run whose longest row already does not fit, before its model is opened, and
// warns of one whose largest batch may not fit. A run that cannot be planned passes. evaluation: nullable.
// Error(out_of_memory).
void check_memory_limit(Environment& environment, const config::RunOptions& options, Batches& rows,
                        Batches* evaluation, int64_t embedding_rows, const std::vector<int32_t>& new_tokens);

// Only warns about a size that the options allow but no row is known to have.
void check_memory_limit(Environment& environment, const config::RunOptions& options, const RunSize& size,
                        int64_t embedding_rows, const std::vector<int32_t>& new_tokens);

}  // namespace trl::run
