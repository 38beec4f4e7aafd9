// Numbers in text, independent of the locale (std::from_chars, std::to_chars only).
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace trl::base {

std::optional<int64_t> parse_int64(
    std::string_view text);  // whole text, optional sign; "1e3" is not an integer
std::optional<double> parse_double(
    std::string_view text);               // whole text; also inf, nan, a leading '+', "1_000" is not
std::string format_double(double value);  // shortest text that reads back to the same value
std::string short_number(double value, int digits = 4);  // as %g writes it; 0 has no sign

}  // namespace trl::base
