// Checks that the rows of a run, or of an evaluation, fit the positions that a model has learned.
#pragma once
#include "config/config.h"
#include "run/rows/batch_source.h"

namespace trl::run {

// positions: engine::Model::learned_positions(). Throws Error(invalid_config) with the key max_length and the
// first row that is longer. Reads rows, waiting for all of them, only if max_length leaves longer ones.
// evaluation: nullable.
void check_positions(const config::Config& config, int64_t positions, Batches& rows, Batches* evaluation);

}  // namespace trl::run
