#include "capi/memory_room.h"

#include <fstream>
#include <limits>
#include <string>

#include "base/cgroup.h"

namespace trl::capi {

namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

// "MemAvailable:  123 kB" of a file of such lines, in bytes; -1: it has none.
int64_t kilobytes_of(const char* path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(name + ":")) continue;
    return std::strtoll(line.c_str() + name.size() + 1, nullptr, 10) * 1024;
  }
  return -1;
}

}  // namespace

int64_t left_in_cgroup() { return base::cgroup_memory(base::own_cgroups(), base::kCgroupMounts); }

int64_t available_bytes() {
  const int64_t bytes = kilobytes_of("/proc/meminfo", "MemAvailable");
  return bytes >= 0 ? bytes : kNoLimit;
}

}  // namespace trl::capi
