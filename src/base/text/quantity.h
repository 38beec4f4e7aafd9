// Formats numbers of things for messages.
#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace trl::base {

// Returns "1 row", "2 rows".
inline std::string quantity(int64_t count, std::string_view one) {
  return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
}

std::string bytes_text(double bytes);       // "1.83 GB", powers of 1000
std::string rate_text(double rate);         // "1320", "3.14"
std::string duration_text(double seconds);  // "2 h 05 min", "14 min 20 s", "41 s"

}  // namespace trl::base
