// How much memory there is for this process, as Linux says it.
#pragma once
#include <cstdint>

namespace trl::capi {

// What the process may still take under the limits of its cgroup and of those above it. The most that there
// is: no limit.
int64_t left_in_cgroup();
int64_t available_bytes();  // of the machine, without swapping; the most that there is: it does not say

}  // namespace trl::capi
