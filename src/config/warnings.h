// The warnings of a configuration as the log has them.
#pragma once
#include <string>
#include <vector>

namespace trl::config {

// One line for all keys that share a reason: "run_name, project: nothing is sent to a tracker".
std::vector<std::string> by_reason(const std::vector<std::string>& warnings);

}  // namespace trl::config
