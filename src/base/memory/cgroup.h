// The cgroups that a process is in, and what their files say: of version 2, and of version 1, where each
// controller has a hierarchy of its own.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace trl::base {

// look(directory) for the directory of each group that holds the process and may limit what the controller
// ("cpu", "memory") gives, and of each above it, up to where the hierarchy is mounted. groups: lines of
// /proc/self/cgroup; mounts: /sys/fs/cgroup.
void each_cgroup(std::string_view groups, const std::string& mounts, std::string_view controller,
                 const std::function<void(const std::string& directory)>& look);
inline constexpr const char* kCgroupMounts = "/sys/fs/cgroup";
std::string own_cgroups();  // the lines; empty: there are none

std::string first_line(const std::string& path);  // empty: there is no such file

// Bytes that the memory limits leave, less those in use; INT64_MAX: there is no limit.
int64_t cgroup_memory(std::string_view groups, const std::string& mounts);

}  // namespace trl::base
