#include "adapter/shortest_endings.h"

#include <algorithm>
#include <set>

namespace trl::adapter {

namespace {

// Returns the endings of a name, shortest first.
std::vector<std::string> endings(const std::string& name) {
  std::vector<std::string> all;
  for (size_t dot = name.rfind('.'); dot != std::string::npos && dot > 0; dot = name.rfind('.', dot - 1))
    all.push_back(name.substr(dot + 1));
  all.push_back(name);
  return all;
}

}  // namespace

std::vector<std::string> shortest_endings(const std::vector<std::string>& names,
                                          const std::vector<std::string>& others) {
  std::set<std::string> taken, chosen;
  for (const std::string& other : others) {
    for (std::string& ending : endings(other)) taken.insert(std::move(ending));
  }
  std::set<std::vector<std::string>> ordered;
  for (const std::string& name : names) ordered.insert(endings(name));
  for (const std::vector<std::string>& one : ordered) {
    const bool covered = std::any_of(one.begin(), one.end() - 1,
                                     [&](const std::string& ending) { return chosen.contains(ending); });
    if (covered) continue;
    const auto free = std::find_if(one.begin(), one.end(), [&](const std::string& ending) {
      return !taken.contains(ending) && !chosen.contains(ending);
    });
    if (free != one.end()) chosen.insert(*free);
  }
  return chosen.empty() ? names : std::vector<std::string>(chosen.begin(), chosen.end());
}

}  // namespace trl::adapter
