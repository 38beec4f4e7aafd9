// The formats of JSON schemas that are patterns.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace trl::text {

// A pattern whose texts all have the format, in the dialect of parse_pattern(); nullopt: it is not known
// here.
std::optional<std::string> format_pattern(std::string_view format);
std::string known_formats();  // for messages

}  // namespace trl::text
