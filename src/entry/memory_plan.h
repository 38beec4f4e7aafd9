// Finds the memory and time of a run by a rehearsal of one step.
#pragma once
#include <string>

#include "config/run_options.h"
#include "engine/engine.h"

namespace trl::entry {

// Throws Error(invalid_config) if the needs of a run cannot be found: on a GPU, and by the plain path.
void check_plannable(const config::Config& config, const config::TrainingArguments& arguments);
std::string plan_json(const engine::PlanSpec& spec);
void check_disks(const engine::PlanSpec& spec, int64_t batches_per_epoch);  // as engine::Engine has it

}  // namespace trl::entry
