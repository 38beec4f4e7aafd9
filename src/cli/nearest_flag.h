// Finds the flag, key or command that a misspelt word was meant to be.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "base/text/nearest.h"

namespace trl::cli {

// Returns the nearest of names: at most two letters of the word, and fewer than half of them, are missing,
// added, different or swapped. Empty if no name is so near.
inline std::string nearest_flag(const std::string& word, const std::vector<std::string>& names) {
  const std::vector<std::string_view> candidates(names.begin(), names.end());
  return std::string(base::nearest(word, candidates, std::min<size_t>(3, (word.size() + 1) / 2)));
}

}  // namespace trl::cli
