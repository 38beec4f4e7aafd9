#include "base/cpus.h"

#include <sched.h>

#include <algorithm>
#include <string>

#include "base/error.h"
#include "base/files.h"
#include "base/number.h"

namespace trl::base {

namespace {
// cgroup v2 "cpu.max": "<quota> <period>" or "max <period>" (Linux Documentation/admin-guide/cgroup-v2.rst).
int cgroup_cpus() {
  constexpr int kNoLimit = 1 << 20;
  try {
    const std::string text = read_file("/sys/fs/cgroup/cpu.max");
    const size_t space = text.find(' ');
    const size_t end = text.find('\n');
    if (space == std::string::npos) return kNoLimit;
    const auto quota = parse_int64(std::string_view(text).substr(0, space));
    const auto period = parse_int64(std::string_view(text).substr(space + 1, end - space - 1));
    if (!quota || !period || *period <= 0) return kNoLimit;
    return static_cast<int>(std::max<int64_t>(1, (*quota + *period - 1) / *period));
  } catch (const Error&) {
    return kNoLimit;
  }
}
}  // namespace

int available_cpus() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  const int allowed = sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : 1;
  return std::max(1, std::min(allowed, cgroup_cpus()));
}

}  // namespace trl::base
