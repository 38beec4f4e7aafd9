// ASCII characters of LaTeX, whatever the locale.
#pragma once
#include <string_view>

namespace trl::reward::math {

inline constexpr size_t kNone = std::string_view::npos;

inline bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
inline bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// Returns the letters of text from `at` on.
inline std::string_view letters_at(std::string_view text, size_t at) {
  size_t end = at;
  while (end < text.size() && is_letter(text[end])) ++end;
  return text.substr(at, end - at);
}

inline std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

}  // namespace trl::reward::math
