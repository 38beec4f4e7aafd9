// include/CONFIGURATION.md, rendered from the option table.
#pragma once
#include <string>

namespace trl::config {
std::string configuration_markdown();
}
