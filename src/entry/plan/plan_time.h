// The time of a step in a plan: from the work of the kernels, the bytes that pass through memory, and the
// bytes that go to a file and back.
#pragma once
#include "engine/plan.h"
#include "entry/plan/rehearsed_run.h"
#include "tensor/memory/rehearsal.h"

namespace trl::entry {

// Returns the bytes read and written in a block: each part counts as often as it is used.
double traffic_of(const tensor::Taken& taken);
void add_time(Rehearsed& run, const engine::PlanSpec& spec);

}  // namespace trl::entry
