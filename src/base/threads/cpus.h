// The number of threads that this process may use.
#pragma once
#include <string>
#include <string_view>

namespace trl::base {

// Returns the smaller of the affinity mask and the quotas of the cgroup and all cgroups above it; at least 1.
int available_cpus();

// Returns the number that the quotas allow; a large number without any. groups: lines of /proc/self/cgroup;
// mounts: the mount point of the hierarchies, /sys/fs/cgroup.
int cgroup_cpus(std::string_view groups, const std::string& mounts);

}  // namespace trl::base
