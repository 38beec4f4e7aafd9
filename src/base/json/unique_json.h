// JSON from strangers.
#pragma once
#include <string_view>

#include "base/json/json.h"

namespace trl::base {

inline constexpr size_t kMostJsonNames = 4096;  // of an object

// Parses like parse_json(), and throws Error(format) for an object that has a name twice or more than
// kMostJsonNames; its key is the name, after those of the objects around it. The time it takes grows with the
// text alone, where a Json searches all its names for each new one.
Json parse_unique_json(std::string_view text, std::string_view origin);

}  // namespace trl::base
