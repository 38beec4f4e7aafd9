#include "adapter/named_modules.h"

#include <algorithm>
#include <set>

#include "base/text/nearest.h"

namespace trl::adapter {

std::vector<Entry> entries(std::span<const Module> modules) {
  std::vector<Entry> all;
  std::set<std::string_view> holders;
  for (const Module& module : modules) {
    const std::string_view name = module.name;
    for (size_t dot = name.find('.'); dot != std::string_view::npos; dot = name.find('.', dot + 1)) {
      if (holders.insert(name.substr(0, dot)).second) all.push_back({name.substr(0, dot), nullptr});
    }
    if (module.kind != ModuleKind::experts) all.push_back({name, &module});
  }
  return all;
}

bool is_module(ModuleKind kind) {
  return kind == ModuleKind::linear || kind == ModuleKind::conv1d || kind == ModuleKind::embedding;
}

std::string there_are(std::span<const Module> modules) {
  std::vector<std::string_view> names;
  for (const Module& module : modules) {
    if (module.head || !is_module(module.kind)) continue;
    const std::string_view last = std::string_view(module.name).substr(module.name.rfind('.') + 1);
    if (std::find(names.begin(), names.end(), last) == names.end()) names.push_back(last);
  }
  return base::join(names);
}

}  // namespace trl::adapter
