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

// What a name is compared with: a list, or an expression.
class Names {
 public:
  // key: the option, for messages. names must live as long as this does.
  Names(std::string_view key, const config::ModuleNames& names);
  bool contain(std::string_view name) const;
  bool has(std::string_view name) const;  // a list, the whole name

 private:
  const config::ModuleNames& names_;
  std::optional<ModulePattern> pattern_;
};

// An entry of modules_to_save keeps adapters off everything below it; PEFT reads it as an expression.
class SavedModules {
 public:
  explicit SavedModules(const std::vector<std::string>& names);
  bool contain(std::string_view name) const;

 private:
  std::vector<ModulePattern> patterns_;
};

}  // namespace trl::adapter
