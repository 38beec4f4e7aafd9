// memory_budget as a number.
#pragma once
#include <cstdint>
#include <optional>

#include "config/config.h"
#include "run/environment.h"

namespace trl::run {

// Resident bytes of the process; nothing: none was given. auto: what the machine, or the cgroup, has free,
// less a margin. Never above runtime.host_memory_limit, nor what the cgroup allows; both give a warning.
std::optional<int64_t> memory_budget(Environment& environment, const config::Config& config);

}  // namespace trl::run
