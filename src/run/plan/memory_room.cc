#include "run/plan/memory_room.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

#include "base/memory/cgroup.h"
#include "base/memory/resident.h"
#include "base/text/quantity.h"

namespace trl::run {

namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

// Reads "MemAvailable:  123 kB" from a file of such lines, in bytes; -1: it has no such line.
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

int64_t with_resident(int64_t free) {
  int64_t all = 0;
  return __builtin_add_overflow(free, base::resident_bytes(), &all) ? free : all;
}

std::optional<std::string> memory_lacking(int64_t peak) {
  const auto text = [](int64_t bytes) { return base::bytes_text(static_cast<double>(bytes)); };
  const int64_t machine = with_resident(available_bytes()), cgroup = with_resident(left_in_cgroup());
  if (peak <= std::min(machine, cgroup)) return std::nullopt;
  return fmt::format(
      "a peak of {} is predicted, and {} {} for this process: the run may be killed; memory_budget: auto "
      "finds a "
      "way that takes less, or says that there is none",
      text(peak), cgroup < machine ? "its cgroup leaves" : "the machine has",
      text(std::min(machine, cgroup)));
}

base::Json memory_room(int64_t peak) {
  base::Json room = base::Json::object();
  const int64_t machine = with_resident(available_bytes()), cgroup = with_resident(left_in_cgroup());
  if (machine != kNoLimit) room["machine_bytes"] = machine;
  if (cgroup != kNoLimit) room["cgroup_bytes"] = cgroup;
  if (const auto warning = memory_lacking(peak)) room["warning"] = *warning;
  return room;
}

}  // namespace trl::run
