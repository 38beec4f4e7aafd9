// Upper, lower, title case and case folding as in Python's str: the full mappings. If a letter folds to
// several, its upper case is that of each (the sharp s becomes SS), as in Unicode's special casing.
#include <utf8proc.h>

#include <array>

#include "base/text/utf8.h"
#include "text/chat_template/unicode.h"
#include "text/chat_template/unicode_property.h"

namespace trl::text::jinja {

namespace {

char32_t simple(utf8proc_int32_t (*map)(utf8proc_int32_t), char32_t c) {
  return static_cast<char32_t>(map(static_cast<utf8proc_int32_t>(c)));
}

// Returns the letters that c folds to, if there are several.
std::u32string expansion(char32_t c) {
  std::array<utf8proc_int32_t, 8> folded{};
  int last = 0;
  const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), folded.data(), folded.size(),
                                             UTF8PROC_CASEFOLD, &last);
  if (count < 2 || count > static_cast<utf8proc_ssize_t>(folded.size())) return {};
  return std::u32string(folded.begin(), folded.begin() + count);
}

bool cased(char32_t c) {
  if (c < 0x80) return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  return has_property(c, Property::cased);
}

void append_upper(std::string& out, char32_t c) {
  if (c < 0x80) {
    out.push_back(c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : static_cast<char>(c));
    return;
  }
  const std::u32string letters = expansion(c);
  if (letters.empty() || is_upper(c)) {
    base::append_utf8(out, simple(utf8proc_toupper, c));
    return;
  }
  for (const char32_t letter : letters) base::append_utf8(out, simple(utf8proc_toupper, letter));
}

// Checks the Final_Sigma condition; begin and end are those of the sigma.
bool final_sigma(std::string_view text, size_t begin, size_t end) {
  const auto skipped = [](char32_t c) { return has_property(c, Property::case_ignorable); };
  bool follows = false;
  while (begin > 0) {
    --begin;
    while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
    size_t at = begin;
    const char32_t c = base::next_code_point(text, at);
    if (skipped(c)) continue;
    follows = cased(c);
    break;
  }
  while (follows && end < text.size()) {
    const char32_t c = base::next_code_point(text, end);
    if (!skipped(c)) return !cased(c);
  }
  return follows;
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

// Gives the first of several letters that has an upper case its upper case; a later iota becomes a subscript.
void append_title(std::string& out, char32_t c) {
  const std::u32string letters = expansion(c);
  const char32_t one = simple(utf8proc_totitle, c);
  if (letters.empty() || is_title(one) || is_upper(c)) {
    base::append_utf8(out, one);
    return;
  }
  bool done = false;
  for (const char32_t letter : letters) {
    const char32_t upper = done ? letter : simple(utf8proc_toupper, letter);
    base::append_utf8(out, done && letter == 0x3B9 ? 0x345 : upper);
    done = done || upper != letter;
  }
}

template <typename Append>
std::string each(std::string_view text, Append append) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = base::next_code_point(text, at);
    append(out, begin, at, c);
  }
  return out;
}

}  // namespace

bool is_title(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c)) == UTF8PROC_CATEGORY_LT;
}
bool is_upper(char32_t c) { return c < 0x80 ? c >= 'A' && c <= 'Z' : has_property(c, Property::uppercase); }
bool is_lower(char32_t c) { return c < 0x80 ? c >= 'a' && c <= 'z' : has_property(c, Property::lowercase); }

std::string to_upper(std::string_view text) {
  return each(text, [](std::string& out, size_t, size_t, char32_t c) { append_upper(out, c); });
}

std::string to_lower(std::string_view text) {
  return each(text, [&](std::string& out, size_t begin, size_t end, char32_t c) {
    append_lower(out, text, begin, end, c);
  });
}

std::string case_fold(std::string_view text) {
  return each(text, [](std::string& out, size_t, size_t, char32_t c) {
    std::array<utf8proc_int32_t, 8> folded{};
    int last = 0;
    const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), folded.data(), folded.size(),
                                               UTF8PROC_CASEFOLD, &last);
    for (utf8proc_ssize_t i = 0; i < count; ++i)
      base::append_utf8(out, static_cast<char32_t>(folded[static_cast<size_t>(i)]));
  });
}

std::string swap_case(std::string_view text) {
  return each(text, [&](std::string& out, size_t begin, size_t end, char32_t c) {
    if (is_upper(c)) {
      append_lower(out, text, begin, end, c);
    } else if (is_lower(c)) {
      append_upper(out, c);
    } else {
      base::append_utf8(out, c);
    }
  });
}

std::string capitalize(std::string_view text) {
  return each(text, [&](std::string& out, size_t begin, size_t end, char32_t c) {
    if (begin == 0) {
      append_title(out, c);
    } else {
      append_lower(out, text, begin, end, c);
    }
  });
}

std::string title_case(std::string_view text) {
  bool inside = false;
  return each(text, [&](std::string& out, size_t begin, size_t end, char32_t c) {
    if (inside) {
      append_lower(out, text, begin, end, c);
    } else {
      append_title(out, c);
    }
    inside = cased(c);
  });
}

bool is_title_case(std::string_view text) {
  bool any = false;
  bool inside = false;
  for (size_t at = 0; at < text.size();) {
    const char32_t c = base::next_code_point(text, at);
    const bool begins = is_upper(c) || is_title(c);
    const bool goes_on = !begins && is_lower(c);
    if ((begins && inside) || (goes_on && !inside)) return false;
    inside = begins || goes_on;
    any = any || inside;
  }
  return any;
}

}  // namespace trl::text::jinja
