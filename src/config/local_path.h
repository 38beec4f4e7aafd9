// Keys that name something on this machine. A model hub is never asked.
#pragma once
#include <string>
#include <string_view>

#include "config/config.h"

namespace trl::config {

// Throws Error(not_found) if the path does not exist: a name that looks like a hub id is answered with "give
// a local path".
void check_local_path(std::string_view key, const std::string& value);

// Returns a directory that a run writes into; `otherwise` if none is given. Throws Error(invalid_config) for
// one that begins with '~'.
std::string directory(const Config& config, std::string_view key, const std::string& otherwise);

}  // namespace trl::config
