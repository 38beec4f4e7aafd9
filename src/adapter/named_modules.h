// A model's modules by their names in transformers, as PEFT goes through them.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "adapter/target_modules.h"

namespace trl::adapter {

// A module of named_modules(): one with parameters, or one that holds others.
struct Entry {
  std::string_view name;
  const Module* module;  // null: it holds others
};

// All of them: each that holds others before the first that it holds. The names must outlive the result.
std::vector<Entry> entries(std::span<const Module> modules);

bool is_module(ModuleKind kind);  // whether target_modules can name it

// For messages: the last parts of the names that an adapter can be given to, each once: "q_proj, k_proj,
// ...".
std::string there_are(std::span<const Module> modules);

}  // namespace trl::adapter
