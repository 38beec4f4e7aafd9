#include "text/tokenizer/score.h"

#include <array>
#include <charconv>
#include <cstdint>
#include <limits>
#include <string>

namespace trl::text {

namespace {
constexpr int kMostPower = 308;

double power_of_ten(int power) {
  static const std::array<double, kMostPower + 1> powers = [] {
    std::array<double, kMostPower + 1> all{};
    for (int i = 0; i <= kMostPower; ++i) {
      const std::string text = "1e" + std::to_string(i);
      std::from_chars(text.data(), text.data() + text.size(), all[static_cast<size_t>(i)]);
    }
    return all;
  }();
  return powers[static_cast<size_t>(power)];
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The digits of a number as far as they fit, and how the point is to be moved.
struct Parts {
  uint64_t digits = 0;
  int64_t exponent = 0;
};

Parts read_parts(std::string_view number) {
  Parts parts;
  bool full = false;
  bool fraction = false;
  for (const char c : number) {
    if (!is_digit(c)) {
      fraction = true;  // the point, which the JSON parser has replaced by that of the locale
      continue;
    }
    const auto digit = static_cast<uint64_t>(c - '0');
    full |= parts.digits > (std::numeric_limits<uint64_t>::max() - digit) / 10;
    if (full) {
      parts.exponent += fraction ? 0 : 1;
    } else {
      parts.digits = 10 * parts.digits + digit;
      parts.exponent -= fraction ? 1 : 0;
    }
  }
  return parts;
}
}  // namespace

double read_score(std::string_view number) {
  const bool negative = number.starts_with('-');
  if (negative) number.remove_prefix(1);
  const size_t e = number.find_first_of("eE");
  Parts parts = read_parts(number.substr(0, e));
  if (e != std::string_view::npos) {
    std::string_view text = number.substr(e + 1);
    if (text.starts_with('+')) text.remove_prefix(1);
    int32_t exponent = text.starts_with('-') ? std::numeric_limits<int32_t>::min() / 2
                                             : std::numeric_limits<int32_t>::max() / 2;  // if out of range
    std::from_chars(text.data(), text.data() + text.size(), exponent);
    parts.exponent += exponent;
  }
  auto value = static_cast<double>(parts.digits);
  for (; parts.exponent < -kMostPower && value != 0; parts.exponent += kMostPower)
    value /= power_of_ten(kMostPower);
  if (value != 0 && parts.exponent > kMostPower) value = std::numeric_limits<double>::infinity();
  if (value != 0 && parts.exponent < 0) value /= power_of_ten(static_cast<int>(-parts.exponent));
  if (value != 0 && parts.exponent > 0 && parts.exponent <= kMostPower)
    value *= power_of_ten(static_cast<int>(parts.exponent));
  return negative ? -value : value;
}

}  // namespace trl::text
