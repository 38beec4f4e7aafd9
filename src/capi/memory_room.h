// How much memory is available to this process, as Linux reports it.
#pragma once
#include <cstdint>

namespace trl::capi {

// What the process may still take under the limits of its cgroup and of those above it. INT64_MAX: there is
// no limit.
int64_t left_in_cgroup();
int64_t available_bytes();  // of the machine, without swapping; INT64_MAX: not known

}  // namespace trl::capi
