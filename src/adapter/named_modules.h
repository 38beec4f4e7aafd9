// A model's modules by their names in transformers, in the order in which PEFT visits them.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "adapter/target_modules.h"

namespace trl::adapter {

// A module of named_modules(): it has parameters, or holds other modules.
struct Entry {
  std::string_view name;
  const Module* module;  // null: it holds others
};

// Returns all modules; a module that holds others precedes the first that it holds. The names must outlive
// the result.
std::vector<Entry> entries(std::span<const Module> modules);

bool is_module(ModuleKind kind);  // whether target_modules can name it

// Returns, for messages, the last parts of the names that can have an adapter, each once: "q_proj, k_proj,
// ...".
std::string there_are(std::span<const Module> modules);

}  // namespace trl::adapter
