// Finds the memory and time of a run by a rehearsal of one step, and the memory of an evaluation.
#pragma once
#include "config/training_arguments.h"
#include "engine/plan.h"
#include "telemetry/run_plan.h"

namespace trl::entry {

// Throws Error(invalid_config) if the needs of a run cannot be found: on a GPU, and by the plain path.
void check_plannable(const config::Config& config, const config::TrainingArguments& arguments);
// As engine::Engine has them.
telemetry::RunPlan run_plan(const engine::PlanSpec& spec);
void check_disks(const engine::PlanSpec& spec);
int64_t planned_evaluation(const engine::PlanSpec& spec);

}  // namespace trl::entry
