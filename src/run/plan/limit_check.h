// Compares runtime.host_memory_limit with what a run takes.
#pragma once
#include <vector>

#include "config/training_arguments.h"
#include "run/plan/size.h"
#include "run/rows/batch_source.h"

namespace trl::run {

// Where a limit is set, a run whose longest row alone does not fit is refused before its model is opened, and
// the log warns of one whose largest batch may not fit. A run that cannot be planned passes.
// training: what config says. evaluation: nullable. Error(out_of_memory).
void check_memory_limit(Environment& environment, const config::Config& config,
                        const config::TrainingArguments& training, Batches& rows, Batches* evaluation,
                        int64_t embedding_rows, const std::vector<int32_t>& new_tokens);

// Of a size that the options allow and no row is known to have, the log only warns.
void check_memory_limit(Environment& environment, const config::Config& config, const RunSize& size,
                        int64_t embedding_rows, const std::vector<int32_t>& new_tokens);

}  // namespace trl::run
