#include "text/constraint/character_set.h"

#include <utf8proc.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>

#include "text/tokenizer/characters.h"

namespace trl::text {

namespace {

// The planes in between have no characters of any class.
constexpr CharacterSet::Range kAssigned[] = {{0, 0x33FFF}, {0xE0000, 0xE0FFF}};

template <class Has>
CharacterSet set_of(const Has& has) {
  CharacterSet set;
  for (const auto& [first, last] : kAssigned) {
    for (char32_t c = first; c <= last; ++c) {
      if (!has(c)) continue;
      const char32_t begin = c;
      while (c < last && has(c + 1)) ++c;
      set.add(begin, c);
    }
  }
  return set;
}

// Takes numbers that utf8proc does not know yet for digits: all but three are.
bool is_decimal_digit(char32_t c) {
  const utf8proc_category_t k = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  if (k == UTF8PROC_CATEGORY_ND) return true;
  return k == UTF8PROC_CATEGORY_CN && is_numeric(c) && (c < 0x16FF4 || c > 0x16FF6);
}

// Whether some version of Unicode, or some dialect of patterns, may have it among \d or \w.
bool may_be_digit(char32_t c) {
  const utf8proc_category_t k = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_CN;
}
bool may_be_word(char32_t c) {
  const utf8proc_category_t k = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return may_be_digit(c) || k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_NO || is_word(c);
}

CharacterSet ascii_set(std::string_view pairs) {
  CharacterSet set;
  for (size_t i = 0; i + 1 < pairs.size(); i += 2)
    set.add(static_cast<unsigned char>(pairs[i]), static_cast<unsigned char>(pairs[i + 1]));
  return set;
}

struct CommonClass {
  CharacterSet all, some;  // by all dialects, and by some
  CharacterSet no_all = all.complement(), no_some = some.complement();
};

struct CommonClasses {
  CommonClass word{ascii_set("09AZ__az"), with_the_rest(set_of(may_be_word))};
  CommonClass digit{ascii_set("09"), with_the_rest(set_of(may_be_digit))};
  CommonClass space{ascii_set("\t\r  "), spaces()};

  // Nobody knows what the planes without characters will have.
  static CharacterSet with_the_rest(CharacterSet set) {
    set.add(kAssigned[0].last + 1, kAssigned[1].first - 1);
    set.add(kAssigned[1].last + 1, CharacterSet::kLast);
    return set;
  }
  static CharacterSet spaces() {
    CharacterSet set = set_of(is_whitespace);
    set.add(0x1C, 0x1F);
    set.add(0xFEFF, 0xFEFF);
    return set;
  }
};

struct Classes {
  CharacterSet word = set_of(is_word), no_word = word.complement();
  CharacterSet digit = set_of(is_decimal_digit), no_digit = digit.complement();
  CharacterSet space = set_of(is_whitespace), no_space = space.complement();
};

char32_t case_key(char32_t c) {
  switch (c) {  // several letters in upper case, which are those of the key
    case 0x1FD3:
      return 0x390;
    case 0x1FE3:
      return 0x3B0;
    case 0xFB05:
      return 0xFB06;
    default:
      break;
  }
  return to_lower(static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))));
}

// Characters that differ only by their case, by what they have in common.
const std::map<char32_t, CharacterSet>& cases() {
  static const auto all = [] {
    std::map<char32_t, CharacterSet> groups;
    for (char32_t c = 0; c < 0x1E944; ++c) {
      const char32_t key = case_key(c);
      if (key == c) continue;
      groups[key].add(c, c);
      groups[key].add(key, key);
    }
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

const CharacterSet& common_class(char name, bool some) {
  static const CommonClasses all;
  const bool others = name >= 'A' && name <= 'Z';
  const char letter = static_cast<char>(name | 0x20);
  const CommonClass& of = letter == 'w' ? all.word : letter == 'd' ? all.digit : all.space;
  if (others) return some ? of.no_all : of.no_some;
  return some ? of.some : of.all;
}

const CharacterSet* category_class(std::string_view name) {
  static const std::map<std::string, CharacterSet, std::less<>> all = [] {
    std::map<std::string, std::vector<CharacterSet::Range>, std::less<>> ranges;
    for (char32_t c = 0; c <= CharacterSet::kLast; ++c) {
      const std::string category = utf8proc_category_string(static_cast<utf8proc_int32_t>(c));
      for (const std::string& one : {category, category.substr(0, 1)}) {
        std::vector<CharacterSet::Range>& own = ranges[one];
        if (!own.empty() && own.back().last + 1 == c)
          own.back().last = c;
        else
          own.push_back({c, c});
      }
    }
    std::map<std::string, CharacterSet, std::less<>> sets;
    for (auto& [category, own] : ranges) sets.emplace(category, CharacterSet(std::move(own)));
    return sets;
  }();
  const auto found = all.find(name);
  return found == all.end() ? nullptr : &found->second;
}

CharacterSet with_both_cases(const CharacterSet& set) {
  CharacterSet more = set;
  if (set.ranges().size() == 1 && set.ranges()[0].first == set.ranges()[0].last) {
    const auto group = cases().find(case_key(set.ranges()[0].first));
    if (group != cases().end()) more.add(group->second);
    return more;
  }
  std::vector<CharacterSet::Range> found = set.ranges();
  for (const auto& [key, group] : cases()) {
    const bool some = std::ranges::any_of(group.ranges(), [&](const CharacterSet::Range& range) {
      for (char32_t c = range.first; c <= range.last; ++c)
        if (set.contains(c)) return true;
      return false;
    });
    if (some) found.insert(found.end(), group.ranges().begin(), group.ranges().end());
  }
  return CharacterSet(std::move(found));
}

}  // namespace trl::text
