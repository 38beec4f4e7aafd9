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
