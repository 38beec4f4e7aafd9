// How much memory is available to this process, as Linux reports it.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "base/json/json.h"

namespace trl::run {

// What the process may still take under the limits of its cgroup and of those above it. INT64_MAX: there is
// no limit.
int64_t left_in_cgroup();
int64_t available_bytes();  // of the machine, without swapping; INT64_MAX: not known
// As many bytes more than the process has now; INT64_MAX stays.
int64_t with_resident(int64_t free);

// Of a run whose process takes this much, a sentence if the machine or the cgroup has less for it.
std::optional<std::string> memory_lacking(int64_t peak);
// {machine_bytes, cgroup_bytes (each if it is known), warning (if they lack memory)}: trl_trainer_plan's
// room.
base::Json memory_room(int64_t peak);

}  // namespace trl::run
