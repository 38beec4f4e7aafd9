#include "capi/memory_room.h"

#include <fstream>
#include <limits>
#include <string>

#include "base/number.h"

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

int64_t number_of(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  if (!std::getline(file, text)) return -1;
  return base::parse_int64(text).value_or(-1);  // "max": no limit
}

}  // namespace

int64_t left_in_cgroup() {
  std::ifstream file("/proc/self/cgroup");
  std::string line, path;
  while (std::getline(file, line)) {
    if (line.starts_with("0::")) path = line.substr(3);
  }
  int64_t left = kNoLimit;
  for (;;) {
    const std::string folder = "/sys/fs/cgroup" + path;
    const int64_t most = number_of(folder + "/memory.max"), now = number_of(folder + "/memory.current");
    if (most >= 0) left = std::min(left, most - std::max<int64_t>(0, now));
    const size_t slash = path.rfind('/');
    if (slash == std::string::npos) return left;
    path.resize(slash);
  }
}

int64_t available_bytes() {
  const int64_t bytes = kilobytes_of("/proc/meminfo", "MemAvailable");
  return bytes >= 0 ? bytes : kNoLimit;
}

}  // namespace trl::capi
