// Classes of characters as `tokenizers` 0.23.3 uses them: from Rust's standard library (Unicode 17), its
// regex crate, and for punctuation a table of Unicode 8.
#pragma once
#include <algorithm>
#include <cstddef>

namespace trl::text {

bool is_whitespace(char32_t c);       // White_Space
bool is_numeric(char32_t c);          // Nd, Nl, No
bool is_punctuation(char32_t c);      // ASCII punctuation, P*
bool is_word(char32_t c);             // \w: Alphabetic, M, Nd, Pc, Join_Control
bool is_mark(char32_t c);             // M*
bool is_nonspacing_mark(char32_t c);  // Mn of Unicode 8, of characters that NFD gives
bool is_combining_mark(char32_t c);   // M* of Unicode 9
bool is_control(char32_t c);          // Cc, Cf, Co of Unicode 8 except for tabs and ends of lines
char32_t to_lower(char32_t c);        // maps one character to one

// Sorted lists of characters, by which the tables of `tokenizers` differ from those available here.
struct CharacterRange {
  char32_t first;
  char32_t last;
};

template <size_t n>
bool within(const CharacterRange (&ranges)[n], char32_t c) {
  const CharacterRange* range =
      std::lower_bound(ranges, ranges + n, c, [](const CharacterRange& r, char32_t x) { return r.last < x; });
  return range != ranges + n && range->first <= c;
}

}  // namespace trl::text
