#include "text/constraint/byte_steps.h"

#include <algorithm>

namespace trl::text {

namespace {

using Range = CharacterSet::Range;

// Characters of as many bytes.
constexpr struct {
  Range range;
  int bytes;
} kEncoded[] = {{{0x80, 0x7FF}, 2}, {{0x800, 0xD7FF}, 3}, {{0xE000, 0xFFFF}, 3}, {{0x10000, 0x10FFFF}, 4}};

std::vector<Range> common(const std::vector<Range>& ranges, const Range& limits) {
  std::vector<Range> found;
  for (const Range& range : ranges) {
    const Range both{std::max(range.first, limits.first), std::min(range.last, limits.last)};
    if (both.first <= both.last) found.push_back(both);
  }
  return found;
}

}  // namespace

ByteSteps::ByteSteps(const CharacterSet& set) {
  Row first;
  first.fill(kNone);
  rows_.push_back(first);
  for (char32_t c = 0; c < 0x80; ++c)
    if (set.contains(c)) first[c] = kDone;
  std::vector<Range> of_bytes[5];
  for (const auto& [range, bytes] : kEncoded) {
    const std::vector<Range> found = common(set.ranges(), range);
    of_bytes[bytes].insert(of_bytes[bytes].end(), found.begin(), found.end());
  }
  for (char32_t lead = 0; lead < 0x20 && !of_bytes[2].empty(); ++lead)
    first[0xC0 + lead] = rest(of_bytes[2], lead << 6, 1);
  for (char32_t lead = 0; lead < 0x10 && !of_bytes[3].empty(); ++lead)
    first[0xE0 + lead] = rest(of_bytes[3], lead << 12, 2);
  for (char32_t lead = 0; lead < 5 && !of_bytes[4].empty(); ++lead)
    first[0xF0 + lead] = rest(of_bytes[4], lead << 18, 3);
  rows_[0] = first;
  empty_ = std::ranges::all_of(first, [](uint16_t place) { return place == kNone; });
  places_.clear();
}

// The place after which `bytes` more lead to the characters from `first` on.
uint16_t ByteSteps::rest(const std::vector<Range>& ranges, char32_t first, int bytes) {
  const char32_t each = char32_t{1} << (6 * (bytes - 1));
  const std::vector<Range> here = common(ranges, {first, first + 64 * each - 1});
  if (here.empty()) return kNone;
  Row row;
  row.fill(kNone);
  for (char32_t i = 0; i < 64; ++i) {
    const char32_t begin = first + i * each;
    if (bytes > 1)
      row[0x80 + i] = rest(here, begin, bytes - 1);
    else if (!common(here, {begin, begin}).empty())
      row[0x80 + i] = kDone;
  }
  return place_of(row);
}

uint16_t ByteSteps::place_of(const Row& row) {
  const auto [found, is_new] = places_.try_emplace(row, static_cast<uint16_t>(rows_.size()));
  if (is_new) rows_.push_back(row);
  return found->second;
}

}  // namespace trl::text
