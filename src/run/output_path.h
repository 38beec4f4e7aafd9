// Checks where a call will write before it does the work.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "config/config.h"

namespace trl::run {

// Throws Error(io), which names the key, where nothing can be written into the directory.
void need_writable(std::string_view key, const std::string& directory);

// The value of key: a file in an existing directory that can be written into. nullopt: null.
std::optional<std::string> output_path(const config::Config& config, const std::string& key);

}  // namespace trl::run
