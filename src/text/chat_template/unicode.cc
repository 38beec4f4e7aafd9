// Unicode facts from utf8proc. Case mapping is the full one: a letter whose case folding has several letters
// gets the upper case of each (the sharp s becomes SS), as the Unicode special casing table has it.
#include "text/chat_template/unicode.h"

#include <utf8proc.h>

#include <array>

#include "base/utf8.h"

namespace trl::text::jinja {

namespace {

utf8proc_category_t category(char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }

char32_t simple(utf8proc_int32_t (*map)(utf8proc_int32_t), char32_t c) {
  return static_cast<char32_t>(map(static_cast<utf8proc_int32_t>(c)));
}

// The case folding of a lower-case letter that folds to several letters, or empty.
std::u32string expansion(char32_t c) {
  std::array<utf8proc_int32_t, 8> folded{};
  int last = 0;
  const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), folded.data(), folded.size(),
                                             UTF8PROC_CASEFOLD, &last);
  if (count < 2 || count > static_cast<utf8proc_ssize_t>(folded.size()) || !is_lower(c)) return {};
  return std::u32string(folded.begin(), folded.begin() + count);
}

void append_upper(std::string& out, char32_t c) {
  if (c < 0x80) {
    out.push_back(c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : static_cast<char>(c));
    return;
  }
  const std::u32string letters = expansion(c);
  for (const char32_t letter : letters) base::append_utf8(out, simple(utf8proc_toupper, letter));
  if (letters.empty()) base::append_utf8(out, simple(utf8proc_toupper, c));
}

bool cased(char32_t c) { return is_upper(c) || is_lower(c) || category(c) == UTF8PROC_CATEGORY_LT; }

// The Final_Sigma condition, without the case-ignorable characters that Unicode lets stand between.
bool final_sigma(std::string_view text, size_t begin, size_t end) {
  if (begin == 0) return false;
  size_t before = begin - 1;
  while (before > 0 && (static_cast<unsigned char>(text[before]) & 0xC0) == 0x80) --before;
  if (!cased(base::next_code_point(text, before))) return false;
  return end >= text.size() || !cased(base::next_code_point(text, end));
}

void append_lower(std::string& out, std::string_view text, size_t begin, size_t end, char32_t c) {
  if (c < 0x80) {
    out.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : static_cast<char>(c));
  } else if (c == 0x130) {
    out.append("i\xCC\x87");  // I with dot: i and a combining dot
  } else if (c == 0x3A3) {
    base::append_utf8(out, final_sigma(text, begin, end) ? 0x3C2 : 0x3C3);
  } else {
    base::append_utf8(out, simple(utf8proc_tolower, c));
  }
}

void append_title(std::string& out, char32_t c) {
  const std::u32string letters = expansion(c);
  if (letters.empty()) {
    base::append_utf8(out, simple(utf8proc_totitle, c));
    return;
  }
  base::append_utf8(out, simple(utf8proc_toupper, letters[0]));
  for (const char32_t letter : letters.substr(1)) base::append_utf8(out, letter);
}

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

bool is_upper(char32_t c) { return c < 0x80 ? c >= 'A' && c <= 'Z' : category(c) == UTF8PROC_CATEGORY_LU; }

bool is_lower(char32_t c) {
  if (c < 0x80) return c >= 'a' && c <= 'z';
  return category(c) == UTF8PROC_CATEGORY_LL || c == 0xAA || c == 0xBA;
}

std::string to_upper(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) append_upper(out, base::next_code_point(text, at));
  return out;
}

std::string to_lower(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = base::next_code_point(text, at);
    append_lower(out, text, begin, at, c);
  }
  return out;
}

std::string capitalize(std::string_view text) {
  if (text.empty()) return {};
  size_t at = 0;
  std::string out;
  append_title(out, base::next_code_point(text, at));
  while (at < text.size()) {
    const size_t begin = at;
    const char32_t c = base::next_code_point(text, at);
    append_lower(out, text, begin, at, c);
  }
  return out;
}

std::string title_case(std::string_view text) {
  std::string out;
  bool inside = false;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = base::next_code_point(text, at);
    if (inside) {
      append_lower(out, text, begin, at, c);
    } else {
      append_title(out, c);
    }
    inside = cased(c);
  }
  return out;
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
