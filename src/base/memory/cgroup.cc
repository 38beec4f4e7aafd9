#include "base/memory/cgroup.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/error.h"
#include "base/files/files.h"
#include "base/text/number.h"

namespace trl::base {

namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

std::string text_of(const std::string& path) {
  try {
    return read_file(path);
  } catch (const Error&) {
    return {};
  }
}

// Looks at the directories of a group and of all groups above it.
void look_up(const std::string& mount, std::string group,
             const std::function<void(const std::string&)>& look) {
  look(mount);
  while (!group.empty() && group != "/") {
    look(mount + group);
    group.erase(group.rfind('/'));
  }
}

// Returns the limit less the usage. Version 2 writes "max" for no limit, version 1 a number near 2^63 (Linux
// Documentation/admin-guide/cgroup-v1/memory.rst).
int64_t left_in(const std::string& directory, const char* limit, const char* usage) {
  constexpr int64_t kLargest = int64_t{1} << 60;
  const auto most = parse_int64(first_line(join_path(directory, limit)));
  if (!most || *most < 0 || *most >= kLargest) return kUnlimited;
  return *most - std::max<int64_t>(0, parse_int64(first_line(join_path(directory, usage))).value_or(0));
}

}  // namespace

std::string own_cgroups() { return text_of("/proc/self/cgroup"); }

std::string first_line(const std::string& path) {
  const std::string text = text_of(path);
  return text.substr(0, text.find('\n'));
}

void each_cgroup(std::string_view groups, const std::string& mounts, std::string_view controller,
                 const std::function<void(const std::string& directory)>& look) {
  for (size_t begin = 0; begin < groups.size();) {
    const size_t end = std::min(groups.find('\n', begin), groups.size());
    const std::string_view line = groups.substr(begin, end - begin);
    begin = end + 1;
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string_view::npos || line.substr(second + 1, 1) != "/") continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string group(line.substr(second + 1));
    if (controllers.empty()) look_up(mounts, group, look);
    if (fmt::format(",{},", controllers).find(fmt::format(",{},", controller)) != std::string::npos)
      look_up(join_path(mounts, controller), group, look);
  }
}

int64_t cgroup_memory(std::string_view groups, const std::string& mounts) {
  int64_t left = kUnlimited;
  each_cgroup(groups, mounts, "memory", [&](const std::string& directory) {
    left = std::min({left, left_in(directory, "memory.max", "memory.current"),
                     left_in(directory, "memory.limit_in_bytes", "memory.usage_in_bytes")});
  });
  return left;
}

}  // namespace trl::base
