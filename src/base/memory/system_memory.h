// The memory of this process as the system counts it, in bytes: resident, limited by cgroups, and given back.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace trl::base {

int64_t resident_bytes() noexcept;       // now; 0: not known
int64_t peak_resident_bytes() noexcept;  // the most since the process began

// The cgroups that a process is in, and the limits in their files: of version 2, and of version 1, in which
// each controller has its own hierarchy. Calls look(directory) for each group that holds the process and may
// limit the controller's resource ("cpu", "memory"), and for each group above it, up to the hierarchy's mount
// point. groups: lines of /proc/self/cgroup; mounts: /sys/fs/cgroup.
void each_cgroup(std::string_view groups, const std::string& mounts, std::string_view controller,
                 const std::function<void(const std::string& directory)>& look);
inline constexpr const char* kCgroupMounts = "/sys/fs/cgroup";
std::string own_cgroups();  // the lines; empty: there are none

std::string first_line(const std::string& path);  // empty: there is no such file

// Returns the smallest memory limit less the bytes in use; INT64_MAX: no limit.
int64_t cgroup_memory(std::string_view groups, const std::string& mounts);

// Gives back memory that the start of a process leaves resident although little of it is needed again: the
// free pages of malloc, and the pages of the shared libraries' code and constants, nearly all of which the
// start has touched. Pages that are read again are loaded from the file. Any thread.
void give_back_pages() noexcept;

// Gives back only the free pages of malloc, which cost nothing to read again.
void give_back_heap() noexcept;

}  // namespace trl::base
