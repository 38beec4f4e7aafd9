// Numbers in text, independent of the locale (std::from_chars, std::to_chars only).
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace trl::base {

// Reads the whole text, with an optional sign; "1e3" is not an integer.
std::optional<int64_t> parse_int64(std::string_view text);
// Reads the whole text, also inf, nan and a leading '+', but not "1_000".
std::optional<double> parse_double(std::string_view text);
// Returns the shortest text that reads back to the same value.
std::string format_double(double value);
// Formats as %g does; 0 has no sign.
std::string short_number(double value, int digits = 4);

}  // namespace trl::base
