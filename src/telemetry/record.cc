#include "telemetry/record.h"

#include <charconv>
#include <cmath>

#include "base/text/number.h"

namespace trl::telemetry {

void Record::put(std::string_view name, double value, bool integer) {
  for (Entry& entry : entries_) {
    if (entry.name == name) {
      entry = Entry{std::string(name), value, integer};
      return;
    }
  }
  entries_.push_back(Entry{std::string(name), value, integer});
}

std::string python_float(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  char buffer[400];  // the longest fixed notation has 309 digits
  const auto shortest = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  std::string text(buffer, shortest.ptr);
  const size_t mark = text.find('e');
  const int64_t exponent = base::parse_int64(std::string_view(text).substr(mark + 1)).value_or(0);
  if (exponent < -4 || exponent >= 16) return text;
  const auto fixed = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed);
  text.assign(buffer, fixed.ptr);
  if (text.find('.') == std::string::npos) text += ".0";
  return text;
}

std::string to_text(const Entry& entry) {
  return entry.integer ? std::to_string(static_cast<int64_t>(entry.value)) : python_float(entry.value);
}

double round_decimals(double value, int decimals) {
  if (!std::isfinite(value)) return value;
  char buffer[400];
  const auto result =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed, decimals);
  return base::parse_double(std::string_view(buffer, static_cast<size_t>(result.ptr - buffer)))
      .value_or(value);
}

}  // namespace trl::telemetry
