// Formats the warnings of a configuration for the log.
#pragma once
#include <string>
#include <vector>

namespace trl::config {

// Returns one line for all keys that share a reason: "run_name, project: nothing is sent to a tracker".
std::vector<std::string> by_reason(const std::vector<std::string>& warnings);

}  // namespace trl::config
