// The flag that a misspelt one was meant to be. The library's own search for keys of the configuration is not
// part of trl.h, and the command calls nothing else.
#pragma once
#include <string>
#include <vector>

namespace trl::cli {

// The one of names that differs least: by at most two letters that are missing, added, others or swapped,
// and by less than half of the word. Empty: none does.
std::string nearest_flag(const std::string& word, const std::vector<std::string>& names);

}  // namespace trl::cli
