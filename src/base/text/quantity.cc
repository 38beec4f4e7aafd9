#include "base/text/quantity.h"

#include <cmath>

#include "base/text/number.h"

namespace trl::base {

std::string bytes_text(double bytes) {
  constexpr std::string_view kUnits[] = {"B", "kB", "MB", "GB", "TB", "PB"};
  size_t unit = 0;
  while (std::abs(bytes) >= 999.5 && unit + 1 < std::size(kUnits)) {
    bytes /= 1000;
    ++unit;
  }
  return fmt::format("{} {}", short_number(bytes, 3), kUnits[unit]);
}

std::string duration_text(double seconds) {
  if (!(seconds >= 0) || seconds > 9e15) return "?";
  if (seconds < 60) return fmt::format("{} s", short_number(seconds, 2));
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 3600 && whole % 60 == 0) return fmt::format("{} min", whole / 60);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  const int64_t minutes = (whole + 30) / 60;
  return fmt::format("{} h {:02} min", minutes / 60, minutes % 60);
}

std::string rate_text(double rate) {
  return rate < 999.5 ? short_number(rate, 3) : std::to_string(std::llround(rate));
}

}  // namespace trl::base
