// The disks in a plan: what the run writes, and whether there is room for it.
#pragma once
#include "engine/plan.h"
#include "entry/plan/rehearsed_run.h"
#include "telemetry/run_plan.h"

namespace trl::entry {

telemetry::RunPlan::Disk disk_of(const engine::PlanSpec& spec, const Rehearsed& run);

}  // namespace trl::entry
