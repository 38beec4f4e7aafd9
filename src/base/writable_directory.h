// Whether files could be written into a directory, asked before the work that they would hold.
#pragma once
#include <string>

namespace trl::base {

// Makes nothing. Throws Error(io), naming the directory or the nearest one above it that is there, when
// nothing can be written there.
void need_writable_directory(const std::string& path);

}  // namespace trl::base
