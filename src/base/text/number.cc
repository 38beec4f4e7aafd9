#include "base/text/number.h"

#include <charconv>
#include <cmath>
#include <system_error>

namespace trl::base {

namespace {
template <typename T>
std::optional<T> parse(std::string_view text) {
  if (text.starts_with('+')) {
    text.remove_prefix(1);
    if (text.starts_with('-') || text.starts_with('+')) return std::nullopt;
  }
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}
}  // namespace

std::optional<int64_t> parse_int64(std::string_view text) { return parse<int64_t>(text); }
std::optional<double> parse_double(std::string_view text) { return parse<double>(text); }

std::string format_double(double value) {
  char buffer[32];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, value);
  return std::string(buffer, result.ptr);
}

std::string short_number(double value, int digits) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  char buffer[64];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, value + 0.0, std::chars_format::general, digits);
  return std::string(buffer, end.ptr);
}

}  // namespace trl::base
