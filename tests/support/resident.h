// Memory of this process as /proc/self/status counts it, in bytes.
#pragma once
#include <cstdint>
#include <fstream>
#include <string>

namespace trl::test {

// key: of /proc/self/status. 0: there is none.
inline int64_t resident(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(key + ":")) return std::stoll(line.substr(key.size() + 1)) * 1024;
  return 0;
}

// VmHWM, the most so far, begins again. false: the system does not allow it.
inline bool reset_most_resident() {
  return static_cast<bool>((std::ofstream("/proc/self/clear_refs") << 5).flush());
}

}  // namespace trl::test
