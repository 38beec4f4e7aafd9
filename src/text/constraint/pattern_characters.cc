#include "text/constraint/pattern_characters.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/text/utf8.h"

namespace trl::text {

namespace {

constexpr size_t kMostRanges = 400000;  // of characters, of all classes that differ by their text

bool is_class_letter(char32_t c) {
  return std::u32string_view(U"wWdDsS").find(c) != std::u32string_view::npos;
}
bool is_category_letter(char32_t c) { return c == 'p' || c == 'P'; }
bool is_octal_digit(char32_t c) { return c >= '0' && c <= '7'; }

}  // namespace

// Returns the set of the text from begin to end; body makes it when the pattern first has that text.
template <class Body>
PatternTree PatternCharacters::known(size_t begin, size_t end, const Body& body) {
  const std::u32string written(text_.characters().substr(begin, end - begin));
  std::shared_ptr<const CharacterSet>& set = sets_[{written, flags.ignore_case, flags.dot_all}];
  if (set == nullptr) {
    set = std::make_shared<const CharacterSet>(body());
    charge(set->ranges().size(), begin);
  }
  text_.go_to(end);
  return PatternTree::shared(set);
}

void PatternCharacters::charge(size_t ranges, size_t place) {
  ranges_ += ranges;
  if (ranges_ > kMostRanges)
    text_.refuse(fmt::format("the classes up to here have more than {} ranges of characters", kMostRanges),
                 place);
}

CharacterSet PatternCharacters::both_cases(const CharacterSet& set, size_t begin) {
  constexpr size_t kCases = 2000;  // about as many are looked at
  if (set.ranges().size() > 1) charge(kCases, begin);
  return with_both_cases(set);
}

PatternTree PatternCharacters::dot() {
  return known(text_.place() - 1, text_.place(), [&] {
    return flags.dot_all ? CharacterSet(0, CharacterSet::kLast) : line_ends().complement();
  });
}

CharacterSet PatternCharacters::line_ends() const {
  CharacterSet ends(U'\n', U'\n');
  if (!common_) return ends;
  ends.add(U'\r', U'\r');
  ends.add(0x2028, 0x2029);
  return ends;
}

PatternTree PatternCharacters::one(char32_t c) {
  return known(text_.place() - 1, text_.place(), [&] {
    const CharacterSet set(c, c);
    return flags.ignore_case ? with_both_cases(set) : set;
  });
}

PatternTree PatternCharacters::bracketed(size_t begin) {
  return known(begin, end_of_brackets(begin), [&] { return members(begin); });
}

PatternTree PatternCharacters::escape(size_t begin) {
  const char32_t c = text_.next();
  const std::u32string_view digits = text_.rest().substr(0, 3);
  const bool is_octal = digits.size() == 3 && c <= '3' && std::ranges::all_of(digits, is_octal_digit);
  if (c >= '1' && c <= '9' && !is_octal)
    text_.refuse("back-references are not supported: they are not regular", begin);
  const auto read = [&] {
    CharacterSet set = escaped(begin);
    return flags.ignore_case ? both_cases(set, begin) : std::move(set);
  };
  return is_class_letter(c) || is_category_letter(c) ? known(begin, end_of_class(), read)
                                                     : PatternTree::of(read());
}

// Returns where the class ends whose letter is next.
size_t PatternCharacters::end_of_class() const {
  const size_t after = text_.place() + 1, size = text_.characters().size();
  if (is_class_letter(text_.next())) return after;
  const bool named = text_.rest().substr(1).starts_with(U'{');
  const size_t last = named ? text_.characters().find(U'}', after) : after;
  return std::min(last, size - 1) + 1;
}

// Returns where the class ends that begins there.
size_t PatternCharacters::end_of_brackets(size_t begin) const {
  const std::u32string_view all = text_.characters();
  size_t at = begin + 1;
  if (at < all.size() && all[at] == '^') ++at;
  if (at < all.size() && all[at] == ']') ++at;
  while (at < all.size() && all[at] != ']') at += all[at] == '\\' ? 2 : 1;
  return std::min(at + 1, all.size());
}

// Reads what is between "[" and "]".
CharacterSet PatternCharacters::members(size_t begin) {
  const bool others = excludes_ = text_.take(U'^');
  std::vector<CharacterSet::Range> ranges, both;  // both: that have both cases of their letters
  for (bool first = true; first || !text_.is_next(']'); first = false) {
    if (text_.is_done()) text_.refuse("the class is not closed", begin);
    const size_t place = text_.place();
    if (text_.take(U"[:")) text_.refuse("classes as [:alpha:] are not supported", place);
    bool is_class = false;
    const CharacterSet low = member(is_class);
    charge(low.ranges().size(), place);
    const std::u32string_view rest = text_.rest();
    if (!rest.starts_with(U'-') || rest.size() == 1 || rest[1] == ']') {
      auto& to = common_ && is_class && is_class_letter(text_.characters()[place + 1]) ? both : ranges;
      to.insert(to.end(), low.ranges().begin(), low.ranges().end());
      continue;
    }
    text_.take(U'-');
    bool is_high_class = false;
    const CharacterSet high = member(is_high_class);
    if (is_class || is_high_class) text_.refuse("a class cannot begin or end a range", place);
    if (low.ranges()[0].first > high.ranges()[0].first) text_.refuse("the range is reversed", place);
    ranges.push_back({low.ranges()[0].first, high.ranges()[0].first});
  }
  text_.take(U']');
  excludes_ = false;
  CharacterSet all(std::move(ranges));
  if (flags.ignore_case) all = both_cases(all, begin);
  all.add(CharacterSet(std::move(both)));
  return others ? all.complement() : all;
}

CharacterSet PatternCharacters::member(bool& is_class) {
  const size_t begin = text_.place();
  const char32_t c = text_.read();
  if (c != '\\') return {c, c};
  if (text_.take(U'b')) return {U'\b', U'\b'};
  is_class = is_class_letter(text_.next()) || is_category_letter(text_.next());
  return escaped(begin);
}

// Reads a class or one character behind "\".
CharacterSet PatternCharacters::escaped(size_t begin) {
  if (text_.is_done()) text_.refuse("the pattern ends with a backslash", begin);
  const char32_t c = text_.read();
  constexpr std::u32string_view kLetters = U"afnrtv";
  constexpr std::u32string_view kMeanings = U"\a\f\n\r\t\v";
  if (const size_t at = kLetters.find(c); at != kLetters.npos) return {kMeanings[at], kMeanings[at]};
  if (is_class_letter(c)) {
    const char name = static_cast<char>(c);
    return common_ ? common_class(name, excludes_) : named_class(name);
  }
  if (is_category_letter(c)) return category(begin, c == 'P');
  char32_t code = c;
  if (c == 'x' || c == 'u' || c == 'U')
    code = hexadecimal(c == 'x' ? 2 : c == 'u' ? 4 : 8, begin);
  else if (is_ascii_digit(c))
    code = octal(begin);
  else if (is_ascii_letter(c))
    text_.refuse(fmt::format("\\{} is not an escape", static_cast<char>(c)), begin);
  return {code, code};
}

// Reads the name behind "\p" or "\P".
CharacterSet PatternCharacters::category(size_t begin, bool others) {
  std::string name;
  if (text_.take(U'{')) {
    while (!text_.is_done() && !text_.is_next('}')) base::append_utf8(name, text_.read());
    if (!text_.take(U'}')) text_.refuse("the name of the category is not closed", begin);
  } else if (!text_.is_done()) {
    base::append_utf8(name, text_.read());
  }
  const CharacterSet* const set = category_class(name);
  if (set == nullptr)
    text_.refuse(fmt::format("\\p{{{}}} is not supported; general categories are, as \\p{{L}} and \\p{{Lu}}",
                             base::one_line(name)),
                 begin);
  return others ? set->complement() : *set;
}

char32_t PatternCharacters::hexadecimal(size_t digits, size_t begin) {
  char32_t code = 0;
  for (size_t i = 0; i < digits; ++i) {
    const char32_t digit = text_.next(), low = digit | 0x20;
    const bool letter = low >= 'a' && low <= 'f';
    if (!letter && !is_ascii_digit(digit))
      text_.refuse(fmt::format("{} hexadecimal digits are needed", digits), begin);
    code = code * 16 + (letter ? low - 'a' + 10 : digit - '0');
    text_.read();
  }
  if (code > CharacterSet::kLast || (code >= 0xD800 && code < 0xE000))
    text_.refuse("there is no such character", begin);
  return code;
}

// Reads \0, \01, \012 or \123, of which the first digit was read.
char32_t PatternCharacters::octal(size_t begin) {
  text_.go_to(text_.place() - 1);
  char32_t code = 0;
  for (size_t i = 0; i < 3 && is_octal_digit(text_.next()); ++i) code = code * 8 + (text_.read() - '0');
  if (code > 0377 || !is_octal_digit(text_.characters()[begin + 1]))
    text_.refuse("there is no such character", begin);
  return code;
}

}  // namespace trl::text
