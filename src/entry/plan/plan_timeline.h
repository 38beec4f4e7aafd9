// The memory of a plan over time: the terms at each moment of a step, and the peak of each kind.
#pragma once
#include <cstdint>
#include <span>

#include "entry/plan/server_memory.h"
#include "memory/plan.h"
#include "telemetry/run_plan.h"
#include "tensor/memory/rehearsal.h"

namespace trl::entry {

// Plans the memory that the memory counter sees. Its terms are the kinds.
memory::Plan counted_memory(const tensor::Rehearsal& rehearsal, int64_t events,
                            std::span<const OfServer> servers = {});

// Fills in terms and timeline, with no bytes for the process. holdings: of the other terms.
void add_timeline(telemetry::RunPlan& plan, std::span<const memory::Holding> holdings,
                  std::span<const tensor::Rehearsal::Event> events);

}  // namespace trl::entry
