#include "base/threads/cpus.h"

#include <sched.h>

#include <algorithm>
#include <string>

#include "base/memory/cgroup.h"
#include "base/text/number.h"

namespace trl::base {

namespace {

constexpr int kNoLimit = 1 << 20;

int cpus_of(std::string_view quota, std::string_view period) {
  const auto share = parse_int64(quota), whole = parse_int64(period);
  if (!share || !whole || *share <= 0 || *whole <= 0) return kNoLimit;
  return static_cast<int>(std::clamp<int64_t>((*share + *whole - 1) / *whole, 1, kNoLimit));
}

// Reads a quota. "cpu.max" of version 2 is "<quota> <period>", "max" for no quota; version 1 has a file for
// each, -1 for none (Linux Documentation/admin-guide/cgroup-v2.rst, scheduler/sched-bwc.rst).
int quota_in(const std::string& directory) {
  const std::string both = first_line(directory + "/cpu.max");
  if (const size_t space = both.find(' '); space != std::string::npos)
    return cpus_of(std::string_view(both).substr(0, space), std::string_view(both).substr(space + 1));
  return cpus_of(first_line(directory + "/cpu.cfs_quota_us"), first_line(directory + "/cpu.cfs_period_us"));
}

}  // namespace

int cgroup_cpus(std::string_view groups, const std::string& mounts) {
  int cpus = kNoLimit;
  each_cgroup(groups, mounts, "cpu",
              [&](const std::string& directory) { cpus = std::min(cpus, quota_in(directory)); });
  return cpus;
}

int available_cpus() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  const int allowed = sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : 1;
  return std::max(1, std::min(allowed, cgroup_cpus(own_cgroups(), kCgroupMounts)));
}

}  // namespace trl::base
