// Checks that files can be written into a directory, before the work that produces them.
#pragma once
#include <string>

namespace trl::base {

// Leaves nothing there. Throws Error(io) if nothing can be written there; the message names the directory, or
// the nearest existing one above it.
void need_writable_directory(const std::string& path);

}  // namespace trl::base
