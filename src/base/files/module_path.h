// Finds and opens private modules: libraries that are opened when they are first needed, and whose one
// exported function returns a struct of functions, which begins with its version.
#pragma once
#include <cstdint>
#include <string>

#include "base/error.h"

namespace trl::base {

// Returns the path of a module: beside the library or program that this function is in, in the folder trl
// there, or in the lib of a build's programs. Empty: there is none.
std::string module_path(const char* file);

// Opens the library at this path, for good, and returns its function of this name; null: it has none. Throws
// Error(unsupported) if it cannot be opened.
void* module_entry(const std::string& path, const char* name, int more_flags);

// Returns the functions of the module at this path. Throws Error(unsupported) if it cannot be opened, or has
// not this version. more_flags: of dlopen.
template <class Module>
const Module& open_module(const std::string& path, const char* entry, int32_t version, int more_flags = 0) {
  const auto function = reinterpret_cast<const Module* (*)()>(module_entry(path, entry, more_flags));
  const Module* const module = function != nullptr ? function() : nullptr;
  if (module == nullptr || module->version != version)
    fail(Status::unsupported, "{}: it belongs to another build", path);
  return *module;
}

}  // namespace trl::base
