#include "text/constraint/character_set.h"

#include <utf8proc.h>

#include <algorithm>
#include <map>

#include "text/tokenizer/characters.h"

namespace trl::text {

namespace {

utf8proc_category_t category_of(char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }

template <class Has>
CharacterSet set_of(const Has& has) {
  CharacterSet set;
  for (char32_t c = 0; c <= CharacterSet::kLast; ++c) {
    if (!has(c)) continue;
    const char32_t first = c;
    while (c < CharacterSet::kLast && has(c + 1)) ++c;
    set.add(first, c);
  }
  return set;
}

// \w of Python's re.
bool is_word_of_re(char32_t c) {
  const utf8proc_category_t k = category_of(c);
  return c == '_' || (k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO) ||
         (k >= UTF8PROC_CATEGORY_ND && k <= UTF8PROC_CATEGORY_NO);
}

bool is_digit(char32_t c) { return category_of(c) == UTF8PROC_CATEGORY_ND; }
bool is_space_of_re(char32_t c) { return is_whitespace(c) || (c >= 0x1C && c <= 0x1F); }

struct Classes {
  CharacterSet word = set_of([](char32_t c) { return is_word_of_re(c) && is_word(c); });
  CharacterSet no_word = set_of([](char32_t c) { return !is_word_of_re(c) && !is_word(c); });
  CharacterSet digit = set_of(is_digit);
  CharacterSet no_digit = digit.complement();
  CharacterSet space = set_of(is_whitespace);
  CharacterSet no_space = set_of([](char32_t c) { return !is_space_of_re(c); });
};

// Characters that have others of another case, by what they have in common.
const std::map<char32_t, std::vector<char32_t>>& cases() {
  static const auto all = [] {
    std::map<char32_t, std::vector<char32_t>> groups;
    for (char32_t c = 0; c < 0x1E944; ++c) {
      const auto upper = static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c)));
      groups[to_lower(upper)].push_back(c);
    }
    std::erase_if(groups, [](const auto& group) { return group.second.size() == 1; });
    return groups;
  }();
  return all;
}

}  // namespace

void CharacterSet::join() {
  std::ranges::sort(ranges_);
  size_t kept = 0;
  for (const Range& range : ranges_) {
    if (kept > 0 && range.first <= ranges_[kept - 1].last + 1)
      ranges_[kept - 1].last = std::max(ranges_[kept - 1].last, range.last);
    else
      ranges_[kept++] = range;
  }
  ranges_.resize(kept);
}

void CharacterSet::add(char32_t first, char32_t last) {
  const bool follows = ranges_.empty() || first > ranges_.back().last + 1;
  ranges_.push_back({first, last});
  if (!follows) join();
}

void CharacterSet::add(const CharacterSet& other) {
  ranges_.insert(ranges_.end(), other.ranges_.begin(), other.ranges_.end());
  join();
}

CharacterSet CharacterSet::complement() const {
  CharacterSet others;
  char32_t next = 0;
  for (const Range& range : ranges_) {
    if (range.first > next) others.add(next, range.first - 1);
    next = range.last + 1;
  }
  if (next <= kLast) others.add(next, kLast);
  return others;
}

CharacterSet CharacterSet::without(const CharacterSet& other) const {
  CharacterSet rest = complement();
  rest.add(other);
  return rest.complement();
}

bool CharacterSet::contains(char32_t c) const {
  const auto range = std::ranges::lower_bound(ranges_, c, {}, &Range::last);
  return range != ranges_.end() && range->first <= c;
}

const CharacterSet& named_class(char name) {
  static const Classes all;
  switch (name) {
    case 'w':
      return all.word;
    case 'W':
      return all.no_word;
    case 'd':
      return all.digit;
    case 'D':
      return all.no_digit;
    case 's':
      return all.space;
    default:
      return all.no_space;
  }
}

CharacterSet with_both_cases(const CharacterSet& set) {
  CharacterSet more;
  for (const auto& [key, group] : cases()) {
    if (std::ranges::none_of(group, [&](char32_t c) { return set.contains(c); })) continue;
    for (const char32_t c : group) more.add(c, c);
  }
  more.add(set);
  return more;
}

}  // namespace trl::text
