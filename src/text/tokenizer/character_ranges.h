// Sorted lists of characters, by which the tables of `tokenizers` differ from those available here.
#pragma once
#include <algorithm>
#include <cstddef>

namespace trl::text {

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
