// memory_budget as a number.
#pragma once
#include <cstdint>
#include <optional>

#include "config/config.h"
#include "run/environment.h"

namespace trl::run {

// Returns resident bytes of the process; nullopt: no budget is set. auto: the free memory of the machine, or
// the cgroup, less a margin. Never above runtime.host_memory_limit, nor above the cgroup's limit; both give a
// warning.
std::optional<int64_t> memory_budget(Environment& environment, const config::Config& config);

}  // namespace trl::run
