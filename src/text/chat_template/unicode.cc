// Classes of characters from utf8proc, and text by code points.
#include "text/chat_template/unicode.h"

#include <utf8proc.h>

#include "base/text/utf8.h"
#include "text/chat_template/numerals.h"

namespace trl::text::jinja {

namespace {

utf8proc_category_t category(char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }

}  // namespace

bool is_space(char32_t c) {
  return (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

bool is_letter(char32_t c) {
  if (c < 0x80) return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  const auto k = category(c);
  return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}

bool is_decimal(char32_t c) { return c < 0x80 ? c >= '0' && c <= '9' : category(c) == UTF8PROC_CATEGORY_ND; }

bool is_word(char32_t c) {
  if (c == '_' || is_letter(c) || is_decimal(c)) return true;
  if (c < 0x80) return false;
  const auto k = category(c);
  return k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_NO;
}

// Computes a digit's value: decimal digits are in Unicode in runs from 0 to 9.
int decimal_value(char32_t c) {
  if (c < 0x80) return static_cast<int>(c) - '0';
  int before = 0;
  while (is_decimal(c - 1 - static_cast<char32_t>(before))) ++before;
  return before % 10;
}

bool is_digit(char32_t c) { return is_decimal(c) || is_special_digit(c); }

bool is_numeric(char32_t c) {
  if (c < 0x80) return is_decimal(c);
  const auto k = category(c);
  return (k >= UTF8PROC_CATEGORY_ND && k <= UTF8PROC_CATEGORY_NO) || is_numeral_ideograph(c);
}

bool is_printable(char32_t c) {
  if (c < 0x7F) return c >= 0x20;
  switch (category(c)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

namespace {
template <typename Predicate>
std::string_view strip_while(std::string_view text, Side side, Predicate drop) {
  if (side != Side::right) {
    size_t at = 0;
    while (at < text.size()) {
      size_t next = at;
      if (!drop(base::next_code_point(text, next))) break;
      at = next;
    }
    text.remove_prefix(at);
  }
  if (side != Side::left) {
    while (!text.empty()) {
      size_t begin = text.size() - 1;
      while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
      size_t next = begin;
      if (!drop(base::next_code_point(text, next))) break;
      text.remove_suffix(text.size() - begin);
    }
  }
  return text;
}

bool line_end(char32_t c) {
  return (c >= 10 && c <= 13) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}
}  // namespace

std::string_view strip(std::string_view text, Side side) { return strip_while(text, side, is_space); }

std::string_view strip(std::string_view text, Side side, std::string_view chars) {
  std::u32string set;
  for (size_t at = 0; at < chars.size();) set += base::next_code_point(chars, at);
  return strip_while(text, side, [&](char32_t c) { return set.find(c) != std::u32string::npos; });
}

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = at;
    const char32_t c = base::next_code_point(text, at);
    if (!line_end(c)) continue;
    if (c == '\r' && at < text.size() && text[at] == '\n') ++at;
    lines.push_back(text.substr(begin, (keep_ends ? at : end) - begin));
    begin = at;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

std::vector<std::string_view> split_words(std::string_view text) {
  std::vector<std::string_view> words;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = at;
    if (!is_space(base::next_code_point(text, at))) continue;
    if (end > begin) words.push_back(text.substr(begin, end - begin));
    begin = at;
  }
  if (begin < text.size()) words.push_back(text.substr(begin));
  return words;
}

size_t byte_offset(const Text& text, size_t index) {
  if (index >= text.length) return text.bytes.size();
  if (text.ascii()) return index;
  size_t at = 0;
  for (; index > 0 && at < text.bytes.size(); --index) base::next_code_point(text.bytes, at);
  return at;
}

size_t code_point_index(const Text& text, size_t offset) {
  return text.ascii() ? offset : base::count_code_points(std::string_view(text.bytes).substr(0, offset));
}

}  // namespace trl::text::jinja
