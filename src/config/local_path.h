// Keys that name something on this machine. A model hub is never asked.
#pragma once
#include <string>
#include <string_view>

namespace trl::config {

// Throws Error(not_found) when nothing is there: a name that looks like a hub id is answered with "give a
// local path".
void check_local_path(std::string_view key, const std::string& value);

}  // namespace trl::config
