// Names of modules in LoraConfig, and whether they match a module; a model's modules by their names in
// transformers, in the order in which PEFT visits them.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "adapter/target_modules.h"
#include "config/lora_config.h"

namespace trl::adapter {

bool ends_after_dot(std::string_view name, std::string_view ending);  // or is it whole

// A regular expression over names of modules, as PEFT uses Python's re.
class ModulePattern {
 public:
  // key: the option, for messages: "target_modules". Throws Error(invalid_config) for an invalid expression.
  ModulePattern(std::string_view key, std::string_view expression);
  ~ModulePattern();
  ModulePattern(ModulePattern&&) noexcept;

  bool matches(std::string_view name) const;  // all of it, as re.fullmatch
  // Returns the number in the group "layer" if the pattern matches and that group holds one.
  std::optional<int64_t> layer(std::string_view name) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

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

// A module of named_modules(): it has parameters, or holds other modules.
struct Entry {
  std::string_view name;
  const Module* module;  // null: it holds others
};

// Returns all modules; a module that holds others precedes the first that it holds. The names must outlive
// the result.
std::vector<Entry> entries(std::span<const Module> modules);

bool is_module(ModuleKind kind);  // whether target_modules can name it

// Returns the last parts of the names of the modules that `wanted` accepts, each once.
template <typename Wanted>
std::vector<std::string_view> last_parts(std::span<const Module> modules, const Wanted& wanted) {
  std::vector<std::string_view> names;
  for (const Module& module : modules) {
    const std::string_view last = std::string_view(module.name).substr(module.name.rfind('.') + 1);
    if (wanted(module) && std::ranges::find(names, last) == names.end()) names.push_back(last);
  }
  return names;
}

// Returns, for messages, the last parts of the names that can have an adapter, each once: "q_proj, k_proj,
// ...".
std::string there_are(std::span<const Module> modules);

// Selects everything else that an adapter trains besides its factors: whole modules (modules_to_save), rows
// of tokens (trainable_token_indices) and biases of the base. selection: has its targets already. Throws
// Error(invalid_config) as select() does.
void select_whole(const config::LoraConfig& config, std::span<const Module> modules, Selection& selection);

}  // namespace trl::adapter
