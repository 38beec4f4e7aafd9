#include "base/cpus.h"

#include <sched.h>

#include <algorithm>
#include <string>

#include "base/error.h"
#include "base/files.h"
#include "base/number.h"

namespace trl::base {

namespace {

constexpr int kNoLimit = 1 << 20;

int cpus_of(std::string_view quota, std::string_view period) {
  const auto share = parse_int64(quota), whole = parse_int64(period);
  if (!share || !whole || *share <= 0 || *whole <= 0) return kNoLimit;
  return static_cast<int>(std::clamp<int64_t>((*share + *whole - 1) / *whole, 1, kNoLimit));
}

std::string text_of(const std::string& path) {  // empty: there is no such file
  try {
    return read_file(path);
  } catch (const Error&) {
    return {};
  }
}

std::string first_line(const std::string& path) {
  const std::string text = text_of(path);
  return text.substr(0, text.find('\n'));
}

// "cpu.max" of version 2 is "<quota> <period>", "max" for no quota; version 1 has a file for each, -1 for
// none (Linux Documentation/admin-guide/cgroup-v2.rst, scheduler/sched-bwc.rst).
int quota_in(const std::string& directory) {
  const std::string both = first_line(directory + "/cpu.max");
  if (const size_t space = both.find(' '); space != std::string::npos)
    return cpus_of(std::string_view(both).substr(0, space), std::string_view(both).substr(space + 1));
  return cpus_of(first_line(directory + "/cpu.cfs_quota_us"), first_line(directory + "/cpu.cfs_period_us"));
}

// Of a group and all above it, up to where the hierarchy is mounted.
int quota_from(const std::string& mount, std::string group) {
  int cpus = quota_in(mount);
  while (!group.empty() && group != "/") {
    cpus = std::min(cpus, quota_in(mount + group));
    group.erase(group.rfind('/'));
  }
  return cpus;
}

}  // namespace

int cgroup_cpus(std::string_view groups, const std::string& mounts) {
  int cpus = kNoLimit;
  for (size_t begin = 0; begin < groups.size();) {
    const size_t end = std::min(groups.find('\n', begin), groups.size());
    const std::string_view line = groups.substr(begin, end - begin);
    begin = end + 1;
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string_view::npos || line.substr(second + 1, 1) != "/") continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string group(line.substr(second + 1));
    if (controllers.empty()) cpus = std::min(cpus, quota_from(mounts, group));
    if (fmt::format(",{},", controllers).find(",cpu,") != std::string::npos)
      cpus = std::min(cpus, quota_from(mounts + "/cpu", group));
  }
  return cpus;
}

int available_cpus() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  const int allowed = sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : 1;
  return std::max(1, std::min(allowed, cgroup_cpus(text_of("/proc/self/cgroup"), "/sys/fs/cgroup")));
}

}  // namespace trl::base
