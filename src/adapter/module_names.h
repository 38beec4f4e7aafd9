// Names of modules in LoraConfig, and whether they match a module.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "adapter/module_pattern.h"
#include "config/lora_config.h"

namespace trl::adapter {

bool ends_after_dot(std::string_view name, std::string_view ending);  // or is it whole

// The names to compare with: a list, or an expression.
class Names {
 public:
  // key: the option, for messages. names must live as long as this does.
  Names(std::string_view key, const config::ModuleNames& names);
  bool contain(std::string_view name) const;
  bool has(std::string_view name) const;  // the names are a list and contain the whole name

 private:
  const config::ModuleNames& names_;
  std::optional<ModulePattern> pattern_;
};

// Module names that keep adapters off everything below them (modules_to_save); PEFT reads each as an
// expression.
class SavedModules {
 public:
  explicit SavedModules(const std::vector<std::string>& names);
  bool contain(std::string_view name) const;

 private:
  std::vector<ModulePattern> patterns_;
};

}  // namespace trl::adapter
