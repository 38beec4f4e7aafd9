// Numbers and arithmetic within prose: 72, 1,234.5, 50%, $3, 48/2.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trl::reward::math {

struct PlainValue {
  size_t begin = 0, end = 0;
  std::string text = {};  // arithmetic as it is written; a number without separators and leading zeros
  bool percent = false;
};

// Return the value after a place, which is the start of the text, a space or a "=".
std::optional<PlainValue> plain_number_at(std::string_view text, size_t place);
// The latter takes digits and at least one of + - * / ^ ( ), followed by a space, punctuation or the end; at
// most 256 bytes.
std::optional<PlainValue> plain_arithmetic_at(std::string_view text, size_t place);

// Returns both kinds, each from left to right without overlaps.
std::vector<PlainValue> plain_values(std::string_view text);

}  // namespace trl::reward::math
