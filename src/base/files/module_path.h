// Finds private modules: libraries that are opened when they are first needed.
#pragma once
#include <string>

namespace trl::base {

// Returns the path of a module: beside the library or program that this function is in, in the folder trl
// there, or in the lib of a build's programs. Empty: there is none.
std::string module_path(const char* file);

}  // namespace trl::base
