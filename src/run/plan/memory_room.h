// Reads the memory available to this process, as Linux reports it.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "base/json/json.h"

namespace trl::run {

// Returns the bytes that the process may still take under the limits of its cgroup and of the cgroups above.
// INT64_MAX: unlimited.
int64_t left_in_cgroup();
int64_t available_bytes();  // of the machine, without swapping; INT64_MAX: not known
// Adds the bytes that the process has now; INT64_MAX stays.
int64_t with_resident(int64_t free);

// Returns a sentence for a run whose process takes `peak` bytes if the machine or the cgroup has less for it.
std::optional<std::string> memory_lacking(int64_t peak);
// Returns {machine_bytes, cgroup_bytes (each if it is known), warning (if they lack memory)}: room in the
// result of trl_trainer_plan.
base::Json memory_room(int64_t peak);

}  // namespace trl::run
