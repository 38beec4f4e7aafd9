// How many threads this process may use: the affinity mask and the cgroup's quota, whichever is less; at
// least 1.
#pragma once
namespace trl::base {
int available_cpus();
}
