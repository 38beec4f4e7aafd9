// The flag that a misspelt one was meant to be.
#pragma once
#include <string>
#include <vector>

namespace trl::cli {

// The name that differs least: by at most two missing, added or changed letters, and by less than half of the
// word. Empty: none is that close.
std::string nearest_flag(const std::string& word, const std::vector<std::string>& names);

}  // namespace trl::cli
