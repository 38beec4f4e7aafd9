// Parses the JSON header of a safetensors file.
#pragma once
#include <string>
#include <string_view>

#include "base/json/json.h"

namespace trl::io {

// Throws Error(format) with the path for JSON with a key twice in one object: choosing one of the two would
// be a guess.
base::SortedJson parse_header(std::string_view text, const std::string& path);

}  // namespace trl::io
