#include "adapter/module_names.h"

#include <algorithm>

namespace trl::adapter {

bool ends_after_dot(std::string_view name, std::string_view ending) {
  return name == ending || (name.size() > ending.size() && name.ends_with(ending) &&
                            name[name.size() - ending.size() - 1] == '.');
}

Names::Names(std::string_view key, const config::ModuleNames& names) : names_(names) {
  if (names.pattern) pattern_.emplace(key, *names.pattern);
}

bool Names::contain(std::string_view name) const {
  if (pattern_) return pattern_->matches(name);
  return std::any_of(names_.names.begin(), names_.names.end(),
                     [&](const std::string& ending) { return ends_after_dot(name, ending); });
}

bool Names::has(std::string_view name) const {
  return !pattern_ && std::find(names_.names.begin(), names_.names.end(), name) != names_.names.end();
}

SavedModules::SavedModules(const std::vector<std::string>& names) {
  for (const std::string& name : names)
    patterns_.emplace_back("modules_to_save", "(^|.*\\.)" + name + "($|\\..*)");
}

bool SavedModules::contain(std::string_view name) const {
  return std::any_of(patterns_.begin(), patterns_.end(),
                     [&](const ModulePattern& pattern) { return pattern.matches(name); });
}

}  // namespace trl::adapter
