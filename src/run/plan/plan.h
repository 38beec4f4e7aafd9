// Predicts the memory, disk space and time of a run.
#pragma once
#include <vector>

#include "base/json/json.h"
#include "config/run_options.h"
#include "engine/engine.h"
#include "run/plan/size.h"

namespace trl::run {

// Returns the engine's plan of one configuration. embedding_rows: 0: as in the model. time: false: no times
// are predicted.
base::Json plan_of(Environment& environment, const config::RunOptions& options, const RunSize& size,
                   int64_t embedding_rows, const std::vector<int32_t>& new_tokens, bool time = true,
                   const config::Levers& levers = {});

// Refuses a run if the disks lack room for it, before its model is opened. batches_per_epoch: 0: not known
// yet.
void check_disks(Environment& environment, const config::RunOptions& options, int64_t embedding_rows,
                 const std::vector<int32_t>& new_tokens, int64_t batches_per_epoch);

int64_t rehearsals() noexcept;  // of a model, on this thread

engine::Prediction prediction_of(const base::Json& plan);

// Every plan leaves a little memory in the process, which belongs to no other plan: all plans report the
// process that the first one found. process: below 0 before the first.
void keep_process(base::Json& plan, int64_t& process);

}  // namespace trl::run
