// Checks the place where a call will write before it does the work.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "config/config.h"

namespace trl::run {

// Throws Error(io), which names the key, if the directory is not writable.
void need_writable(std::string_view key, const std::string& directory);

// Returns the value of key: a file in an existing, writable directory. nullopt: the value is null.
std::optional<std::string> output_path(const config::Config& config, const std::string& key);

}  // namespace trl::run
