#include "text/constraint/pattern_text.h"

#include "base/error.h"
#include "base/text/utf8.h"

namespace trl::text {

namespace {

constexpr size_t kMostPatternBytes = 64 * 1024;
constexpr std::string_view kPatternForms =
    "literals, . and classes as [a-z], \\w \\d \\s \\p{L}, groups, |, * + ? {m,n}, (?i) and (?s)";

std::string shortened_pattern(std::string_view pattern) {
  constexpr size_t kShown = 60;
  const std::string text(pattern.substr(0, kShown));
  return "'" + base::one_line(text) + (pattern.size() > kShown ? "...'" : "'");
}

}  // namespace

PatternText::PatternText(std::string_view pattern, std::string_view key) : pattern_(pattern), key_(key) {
  if (pattern.size() > kMostPatternBytes)
    fail_key(key, "{}: the pattern has {} bytes; at most {} are accepted", key, pattern.size(),
             kMostPatternBytes);
  if (const size_t bad = base::find_invalid_utf8(pattern); bad != base::kValid)
    fail_key(key, "{}: byte {} of the pattern is not UTF-8", key, bad);
  for (size_t at = 0; at < pattern.size();) characters_.push_back(base::next_code_point(pattern, at));
}

bool PatternText::take(char32_t c) {
  if (!is_next(c)) return false;
  ++place_;
  return true;
}

bool PatternText::take(std::u32string_view word) {
  if (!rest().starts_with(word)) return false;
  place_ += word.size();
  return true;
}

void PatternText::refuse(std::string_view why, size_t place) const {
  fail_key(key_, "{}: character {} of the pattern {}: {}; accepted are {}", key_, place + 1,
           shortened_pattern(pattern_), why, kPatternForms);
}

}  // namespace trl::text
