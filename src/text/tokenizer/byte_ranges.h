// Parts of a text, as byte ranges.
#pragma once
#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace trl::text {

// [begin, end), in order, apart from one another.
using ByteRanges = std::vector<std::pair<size_t, size_t>>;

// Adds a range behind all others; joins it with one that it touches.
inline void add_range(ByteRanges& ranges, size_t begin, size_t end) {
  if (begin >= end) return;
  if (!ranges.empty() && ranges.back().second == begin)
    ranges.back().second = end;
  else
    ranges.emplace_back(begin, end);
}

// Returns the first range that ends behind a place.
inline ByteRanges::const_iterator range_at(const ByteRanges& ranges, size_t place) {
  return std::ranges::upper_bound(ranges, place, {}, &std::pair<size_t, size_t>::second);
}

// Cuts ranges of a text whose end is cut off.
inline void cut_ranges(ByteRanges& ranges, size_t size) {
  while (!ranges.empty() && ranges.back().first >= size) ranges.pop_back();
  if (!ranges.empty()) ranges.back().second = std::min(ranges.back().second, size);
}

inline bool is_inside(const ByteRanges& ranges, size_t place) {
  const auto range = range_at(ranges, place);
  return range != ranges.end() && range->first <= place;
}

}  // namespace trl::text
