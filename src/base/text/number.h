// Numbers in text, independent of the locale (std::from_chars, std::to_chars only).
#pragma once
#include <fmt/format.h>
#include <concepts>
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

// Returns "1 row", "2 rows".
inline std::string quantity(int64_t count, std::string_view one) {
  return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
}

std::string bytes_text(double bytes);  // "1.83 GB", powers of 1000
std::string bytes_text(std::same_as<int64_t> auto bytes) { return bytes_text(static_cast<double>(bytes)); }
std::string rate_text(double rate);         // "1320", "3.14"
std::string duration_text(double seconds);  // "2 h 05 min", "14 min 20 s", "41 s"

}  // namespace trl::base
