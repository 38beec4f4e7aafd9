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
  const char32_t each = char32_t{1} << (6 * (bytes - 1)), last = first + 64 * each - 1;
  const std::vector<Range> here = common(ranges, {first, last});
  if (here.empty()) return kNone;
  if (here[0].first == first && here[0].last == last) return all(bytes);
  Row row;
  row.fill(kNone);
  for (const Range& range : here) {
    for (char32_t i = (range.first - first) / each; i <= (range.last - first) / each; ++i)
      if (row[0x80 + i] == kNone)  // not by a range before
        row[0x80 + i] = bytes > 1 ? rest(here, first + i * each, bytes - 1) : kDone;
  }
  return place_of(row);
}

uint16_t ByteSteps::all(int bytes) {
  Row row;
  row.fill(kNone);
  const uint16_t next = bytes > 1 ? all(bytes - 1) : kDone;
  std::fill(row.begin() + 0x80, row.begin() + 0xC0, next);
  return place_of(row);
}

uint16_t ByteSteps::place_of(const Row& row) {
  const auto [found, is_new] = places_.try_emplace(row, static_cast<uint16_t>(rows_.size()));
  if (is_new) rows_.push_back(row);
  return found->second;
}

}  // namespace trl::text
