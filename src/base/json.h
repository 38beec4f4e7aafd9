// JSON as the project uses it: key order is kept, errors name the origin, line and column.
#pragma once
#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace trl::base {

using Json = nlohmann::ordered_json;

// origin: file name or other name for messages; first_line: the line number of the text's first line (JSONL).
// Throws Error(format): "<origin>:<line>:<column>: ...". A leading byte order mark is skipped.
Json parse_json(std::string_view text, std::string_view origin, int64_t first_line = 1);
Json read_json_file(const std::string& path);
std::string json_type(const Json& value);  // "string", "number", "boolean", "null", "list", "object"

}  // namespace trl::base
