#include "text/constraint/pattern_parser.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>

#include "base/error.h"
#include "base/text/utf8.h"

namespace trl::text {

namespace {

using TreeKind = PatternTree::Kind;

constexpr size_t kMostBytes = 64 * 1024;
constexpr int kMostDepth = 200;
constexpr uint32_t kMostRepeats = 50000;
constexpr size_t kMostRanges = 400000;  // of characters, of all classes that differ by their text
constexpr std::string_view kPatternForms =
    "literals, . and classes as [a-z], \\w \\d \\s \\p{L}, groups, |, * + ? {m,n}, (?i) and (?s)";

bool is_ascii_digit(char32_t c) { return c >= '0' && c <= '9'; }
bool is_class_letter(char32_t c) {
  return std::u32string_view(U"wWdDsS").find(c) != std::u32string_view::npos;
}
bool is_category_letter(char32_t c) { return c == 'p' || c == 'P'; }
bool is_ascii_letter(char32_t c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

class PatternParser {
 public:
  // common: what matches does so in every dialect of common_class().
  PatternParser(std::string_view pattern, std::string_view key, bool common)
      : pattern_(pattern), key_(key), common_(common) {
    if (pattern.size() > kMostBytes)
      fail_key(key, "{}: the pattern has {} bytes; at most {} are accepted", key, pattern.size(), kMostBytes);
    if (const size_t bad = base::find_invalid_utf8(pattern); bad != base::kValid)
      fail_key(key, "{}: byte {} of the pattern is not UTF-8", key, bad);
    for (size_t at = 0; at < pattern.size();) text_.push_back(base::next_code_point(pattern, at));
  }

  PatternTree parse() {
    read_flags();
    PatternTree tree = alternatives(0);
    if (at_ < text_.size()) refuse("')' closes no group", at_);
    return tree;
  }

 private:
  struct Flags {
    bool ignore_case = false, dot_all = false;
  };

  [[noreturn]] void refuse(std::string_view what, size_t at) const {
    fail_key(key_, "{}: character {} of the pattern {}: {}; accepted are {}", key_, at + 1, shown(), what,
             kPatternForms);
  }
  std::string shown() const {
    constexpr size_t kShown = 60;
    std::string text(pattern_.substr(0, kShown));
    return "'" + base::one_line(text) + (pattern_.size() > kShown ? "...'" : "'");
  }
  bool is_next(char32_t c) const { return at_ < text_.size() && text_[at_] == c; }
  bool take(char32_t c) {
    if (!is_next(c)) return false;
    ++at_;
    return true;
  }
  bool take(std::u32string_view word) {
    if (!std::u32string_view(text_).substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  // (?i), (?s) or both, at the beginning.
  void read_flags() {
    while (is_next('(') && at_ + 2 < text_.size() && text_[at_ + 1] == '?' &&
           is_ascii_letter(text_[at_ + 2]) && text_[at_ + 2] != 'P') {
      const size_t begin = at_;
      at_ += 2;
      const Flags flags = flag_letters();
      if (!take(U')')) {
        at_ = begin;  // a group with flags of its own
        return;
      }
      flags_ = flags;
    }
  }

  // "i", "s" or both; behind a minus those that do not hold.
  Flags flag_letters() {
    Flags flags = flags_;
    bool on = true;
    for (; at_ < text_.size() && (is_ascii_letter(text_[at_]) || (on && text_[at_] == '-')); ++at_) {
      if (text_[at_] == '-')
        on = false;
      else if (text_[at_] == 'i')
        flags.ignore_case = on;
      else if (text_[at_] == 's')
        flags.dot_all = on;
      else
        refuse(fmt::format("the flag (?{}) is not supported", static_cast<char>(text_[at_])), at_);
    }
    return flags;
  }

  PatternTree alternatives(int depth) {
    if (depth > kMostDepth) refuse(fmt::format("groups are nested deeper than {}", kMostDepth), at_);
    std::vector<PatternTree> all;
    do all.push_back(terms(depth));
    while (take(U'|'));
    return all.size() == 1 ? std::move(all[0]) : PatternTree::choice(std::move(all));
  }

  PatternTree terms(int depth) {
    std::vector<PatternTree> parts;
    while (at_ < text_.size() && text_[at_] != '|' && text_[at_] != ')') {
      const size_t begin = at_;
      std::optional<PatternTree> part = atom(depth);
      if (!part) continue;
      parts.push_back(repeated(std::move(*part), begin));
    }
    return parts.size() == 1 ? std::move(parts[0]) : PatternTree::sequence(std::move(parts));
  }

  // nullopt: a comment.
  std::optional<PatternTree> atom(int depth) {
    const size_t begin = at_;
    const char32_t c = text_[at_++];
    switch (c) {
      case '(':
        return group(begin, depth);
      case '[':
        return set(begin);
      case '\\':
        return escape(begin);
      case '.':
        return known(begin, at_, [&] {
          return flags_.dot_all ? CharacterSet(0, CharacterSet::kLast) : line_ends().complement();
        });
      case '^':
        return PatternTree{.kind = TreeKind::begin};
      case '$':
        return PatternTree{.kind = TreeKind::end};
      case '*':
      case '+':
      case '?':
        refuse("there is nothing to repeat", begin);
      case '{':
        at_ = begin;
        if (quantifier()) refuse("there is nothing to repeat", begin);
        at_ = begin + 1;
        return one(c);
      default:
        return one(c);
    }
  }

  CharacterSet line_ends() const {
    CharacterSet ends(U'\n', U'\n');
    if (!common_) return ends;
    ends.add(U'\r', U'\r');
    ends.add(0x2028, 0x2029);
    return ends;
  }

  // Returns the set of the text from begin to end; body makes it when the pattern first has that text.
  template <class Body>
  PatternTree known(size_t begin, size_t end, const Body& body) {
    const auto key = std::tuple(text_.substr(begin, end - begin), flags_.ignore_case, flags_.dot_all);
    std::shared_ptr<const CharacterSet>& set = sets_[key];
    if (set == nullptr) {
      set = std::make_shared<const CharacterSet>(body());
      charge(set->ranges().size(), begin);
    }
    at_ = end;
    return PatternTree::shared(set);
  }

  void charge(size_t ranges, size_t at) {
    ranges_ += ranges;
    if (ranges_ > kMostRanges)
      refuse(fmt::format("the classes up to here have more than {} ranges of characters", kMostRanges), at);
  }

  PatternTree one(char32_t c) {
    return known(at_ - 1, at_, [&] {
      const CharacterSet set(c, c);
      return flags_.ignore_case ? with_both_cases(set) : set;
    });
  }

  std::optional<PatternTree> group(size_t begin, int depth) {
    const Flags outside = flags_;
    if (take(U'?')) {
      if (take(U"#")) {
        while (at_ < text_.size() && text_[at_] != ')') ++at_;
        close(begin);
        return std::nullopt;
      }
      open_special(begin);
    }
    PatternTree inside = alternatives(depth + 1);
    close(begin);
    flags_ = outside;
    return inside;
  }

  void close(size_t begin) {
    if (!take(U')')) refuse("the group is not closed", begin);
  }

  // After "(?".
  void open_special(size_t begin) {
    if (take(U':')) return;
    if (take(U"=") || take(U"!") || take(U"<=") || take(U"<!"))
      refuse("look-around, (?=, (?!, (?<= and (?<!, is not supported", begin);
    if (take(U"P=")) refuse("back-references are not supported: they are not regular", begin);
    if (take(U">")) refuse("atomic groups, (?>, are not supported", begin);
    if (take(U"(")) refuse("conditions, (?(1), are not supported", begin);
    if (take(U"P<") || take(U"<")) {
      const size_t name = at_;
      while (at_ < text_.size() && text_[at_] != '>') ++at_;
      if (at_ == name || !take(U'>')) refuse("the name of a group is missing", begin);
      return;
    }
    if (is_next('-') || (at_ < text_.size() && is_ascii_letter(text_[at_]))) {
      flags_ = flag_letters();
      if (take(U':')) return;
      if (is_next(')')) refuse("flags of the whole pattern stand at its beginning", begin);
    }
    refuse("the group is of an unknown kind", begin);
  }

  struct Count {
    uint32_t least, most;
  };

  std::optional<uint32_t> number() {
    if (at_ == text_.size() || !is_ascii_digit(text_[at_])) return std::nullopt;
    uint32_t value = 0;
    for (; at_ < text_.size() && is_ascii_digit(text_[at_]); ++at_) {
      value = value * 10 + static_cast<uint32_t>(text_[at_] - '0');
      if (value > kMostRepeats) refuse(fmt::format("at most {} repetitions are accepted", kMostRepeats), at_);
    }
    return value;
  }

  // nullopt: the text is none, and nothing of it is taken.
  std::optional<Count> quantifier() {
    const size_t begin = at_;
    if (take(U'*')) return Count{0, PatternTree::kUnlimited};
    if (take(U'+')) return Count{1, PatternTree::kUnlimited};
    if (take(U'?')) return Count{0, 1};
    if (!take(U'{')) return std::nullopt;
    const std::optional<uint32_t> least = number();
    const bool range = take(U',');
    const std::optional<uint32_t> most = range ? number() : least;
    if ((!least && !range) || !take(U'}')) {
      at_ = begin;
      return std::nullopt;
    }
    const Count count{least.value_or(0), most.value_or(PatternTree::kUnlimited)};
    if (count.least > count.most) refuse("the least number of repetitions is above the most", begin);
    return count;
  }

  PatternTree repeated(PatternTree part, size_t begin) {
    const size_t at = at_;
    const std::optional<Count> count = quantifier();
    if (!count) return part;
    if (part.kind == TreeKind::begin || part.kind == TreeKind::end)
      refuse("an anchor cannot be repeated", begin);
    if (is_next('+')) refuse("possessive quantifiers are not supported", at);
    take(U'?');  // matches the same texts
    const size_t next = at_;
    if (quantifier()) refuse("a quantifier follows another; put a group between them", next);
    return PatternTree::repeat(std::move(part), count->least, count->most);
  }

  // After "\".
  PatternTree escape(size_t begin) {
    if (at_ == text_.size()) refuse("the pattern ends with a backslash", begin);
    const char32_t c = text_[at_];
    switch (c) {
      case 'A':
        ++at_;
        return {.kind = TreeKind::begin};
      case 'Z':
      case 'z':
        ++at_;
        return {.kind = TreeKind::end};
      case 'b':
      case 'B':
        refuse("borders of words, \\b and \\B, are not supported", begin);
      default:
        break;
    }
    const bool octal =
        at_ + 2 < text_.size() && c <= '3' &&
        std::ranges::all_of(text_.substr(at_, 3), [](char32_t d) { return d >= '0' && d <= '7'; });
    if (c >= '1' && c <= '9' && !octal)
      refuse("back-references are not supported: they are not regular", begin);
    const auto read = [&] {
      CharacterSet set = escaped(begin);
      return flags_.ignore_case ? both_cases(set, begin) : std::move(set);
    };
    return is_class_letter(c) || is_category_letter(c) ? known(begin, end_of_class(), read)
                                                       : PatternTree::of(read());
  }

  // Returns where the class ends whose letter is next.
  size_t end_of_class() const {
    if (is_class_letter(text_[at_])) return at_ + 1;
    const bool named = at_ + 1 < text_.size() && text_[at_ + 1] == '{';
    const size_t close = named ? text_.find(U'}', at_) : at_ + 1;
    return std::min(close, text_.size() - 1) + 1;
  }

  // After "\p" or "\P".
  CharacterSet category(size_t begin, bool others) {
    std::string name;
    if (take(U'{')) {
      while (at_ < text_.size() && text_[at_] != '}') base::append_utf8(name, text_[at_++]);
      if (!take(U'}')) refuse("the name of the category is not closed", begin);
    } else if (at_ < text_.size()) {
      base::append_utf8(name, text_[at_++]);
    }
    const CharacterSet* const set = category_class(name);
    if (set == nullptr)
      refuse(fmt::format("\\p{{{}}} is not supported; general categories are, as \\p{{L}} and \\p{{Lu}}",
                         base::one_line(name)),
             begin);
    return others ? set->complement() : *set;
  }

  CharacterSet both_cases(const CharacterSet& set, size_t begin) {
    constexpr size_t kCases = 2000;  // about as many are looked at
    if (set.ranges().size() > 1) charge(kCases, begin);
    return with_both_cases(set);
  }

  // After "\": a class or one character.
  CharacterSet escaped(size_t begin) {
    if (at_ == text_.size()) refuse("the pattern ends with a backslash", begin);
    const char32_t c = text_[at_++];
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
      code = octal_from(begin);
    else if (is_ascii_letter(c))
      refuse(fmt::format("\\{} is not an escape", static_cast<char>(c)), begin);
    return {code, code};
  }

  char32_t hexadecimal(size_t digits, size_t begin) {
    char32_t code = 0;
    for (size_t i = 0; i < digits; ++i, ++at_) {
      const char32_t c = at_ < text_.size() ? text_[at_] | 0x20 : 0;
      const bool letter = c >= 'a' && c <= 'f';
      if (at_ >= text_.size() || !(letter || is_ascii_digit(text_[at_])))
        refuse(fmt::format("{} hexadecimal digits are needed", digits), begin);
      code = code * 16 + (letter ? c - 'a' + 10 : text_[at_] - '0');
    }
    if (code > CharacterSet::kLast || (code >= 0xD800 && code < 0xE000))
      refuse("there is no such character", begin);
    return code;
  }

  // A digit was read: \0, \01, \012 or \123.
  char32_t octal_from(size_t begin) {
    --at_;
    char32_t code = 0;
    for (size_t i = 0; i < 3 && at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '7'; ++i)
      code = code * 8 + (text_[at_++] - '0');
    if (code > 0377 || text_[begin + 1] > '7') refuse("there is no such character", begin);
    return code;
  }

  // After "[".
  PatternTree set(size_t begin) {
    return known(begin, end_of_set(begin), [&] { return set_at(begin); });
  }

  // Returns where the class ends that begins there.
  size_t end_of_set(size_t begin) const {
    size_t at = begin + 1;
    if (at < text_.size() && text_[at] == '^') ++at;
    if (at < text_.size() && text_[at] == ']') ++at;
    while (at < text_.size() && text_[at] != ']') at += text_[at] == '\\' ? 2 : 1;
    return std::min(at + 1, text_.size());
  }

  CharacterSet set_at(size_t begin) {
    const bool others = excludes_ = take(U'^');
    std::vector<CharacterSet::Range> ranges, both;  // both: that have both cases of their letters
    for (bool first = true; first || !is_next(']'); first = false) {
      if (at_ == text_.size()) refuse("the class is not closed", begin);
      if (take(U"[:")) refuse("classes as [:alpha:] are not supported", at_ - 2);
      const size_t place = at_;
      bool is_class = false;
      const CharacterSet low = member(is_class);
      charge(low.ranges().size(), place);
      if (!is_next('-') || at_ + 1 >= text_.size() || text_[at_ + 1] == ']') {
        auto& to = common_ && is_class && is_class_letter(text_[place + 1]) ? both : ranges;
        to.insert(to.end(), low.ranges().begin(), low.ranges().end());
        continue;
      }
      ++at_;
      bool is_high_class = false;
      const CharacterSet high = member(is_high_class);
      if (is_class || is_high_class) refuse("a class cannot begin or end a range", place);
      if (low.ranges()[0].first > high.ranges()[0].first) refuse("the range is reversed", place);
      ranges.push_back({low.ranges()[0].first, high.ranges()[0].first});
    }
    ++at_;
    excludes_ = false;
    CharacterSet all(std::move(ranges));
    if (flags_.ignore_case) all = both_cases(all, begin);
    all.add(CharacterSet(std::move(both)));
    return others ? all.complement() : all;
  }

  CharacterSet member(bool& is_class) {
    const size_t begin = at_;
    const char32_t c = text_[at_++];
    if (c != '\\') return {c, c};
    if (take(U'b')) return {U'\b', U'\b'};
    const CharacterSet set = escaped(begin);
    is_class = is_class_letter(text_[begin + 1]) || is_category_letter(text_[begin + 1]);
    return set;
  }

  std::string_view pattern_, key_;
  bool common_;
  bool excludes_ = false;  // within a class of others, [^...]
  std::u32string text_;
  size_t at_ = 0;
  Flags flags_;
  std::map<std::tuple<std::u32string, bool, bool>, std::shared_ptr<const CharacterSet>> sets_;
  size_t ranges_ = 0;
};

bool is_anchor(const PatternTree& tree) { return tree.kind == TreeKind::begin || tree.kind == TreeKind::end; }

// Removes anchors that hold wherever a match of the whole text is. at_begin, at_end: nothing lies before or
// behind the tree.
void remove_anchors(PatternTree& tree, bool at_begin, bool at_end, std::string_view key) {
  const auto refuse = [&](std::string_view mark, std::string_view where) {
    fail_key(key, "{}: {} is accepted only at the {} of the pattern or of an alternative there", key, mark,
             where);
  };
  if (tree.kind == TreeKind::begin && !at_begin) refuse("^", "beginning");
  if (tree.kind == TreeKind::end && !at_end) refuse("$", "end");
  if (is_anchor(tree)) tree = PatternTree();
  if (tree.kind == TreeKind::repeat) at_begin = at_end = false;
  if (tree.kind != TreeKind::sequence) {
    for (PatternTree& part : tree.parts) remove_anchors(part, at_begin, at_end, key);
    return;
  }
  const auto first = std::ranges::find_if_not(
      tree.parts, [](const PatternTree& part) { return part.kind == TreeKind::begin; });
  const auto begun = static_cast<size_t>(first - tree.parts.begin());
  size_t ended = tree.parts.size();
  while (ended > 0 && tree.parts[ended - 1].kind == TreeKind::end) --ended;
  for (size_t i = 0; i < tree.parts.size(); ++i)
    remove_anchors(tree.parts[i], at_begin && i <= begun, at_end && i + 1 >= ended, key);
}

PatternTree anything() {
  return PatternTree::repeat(PatternTree::of({0, CharacterSet::kLast}), 0, PatternTree::kUnlimited);
}

// Whether a tree has an anchor of this kind at its side.
bool has_anchor(const PatternTree& tree, TreeKind anchor) {
  if (tree.kind == TreeKind::choice)
    return std::ranges::any_of(tree.parts, [&](const PatternTree& part) { return has_anchor(part, anchor); });
  if (tree.kind != TreeKind::sequence || tree.parts.empty()) return tree.kind == anchor;
  return has_anchor(anchor == TreeKind::begin ? tree.parts.front() : tree.parts.back(), anchor);
}

// Puts any text before a tree, or behind it, wherever it has no anchor there.
PatternTree with_surroundings(PatternTree tree, TreeKind anchor) {
  const bool before = anchor == TreeKind::begin;
  if (tree.kind == anchor) return {};
  if (tree.kind == TreeKind::choice) {
    for (PatternTree& part : tree.parts) part = with_surroundings(std::move(part), anchor);
    return tree;
  }
  if (tree.kind == TreeKind::sequence && has_anchor(tree, anchor)) {
    PatternTree& part = before ? tree.parts.front() : tree.parts.back();
    if (part.kind != anchor) part = with_surroundings(std::move(part), anchor);
    return tree;
  }
  std::vector<PatternTree> all;
  all.push_back(before ? anything() : std::move(tree));
  all.push_back(before ? std::move(tree) : anything());
  return PatternTree::sequence(std::move(all));
}

}  // namespace

PatternTree parse_pattern(std::string_view pattern, std::string_view key) {
  PatternTree tree = PatternParser(pattern, key, false).parse();
  remove_anchors(tree, true, true, key);
  return tree;
}

PatternTree parse_part_pattern(std::string_view pattern, std::string_view key) {
  PatternTree tree = PatternParser(pattern, key, true).parse();
  tree = with_surroundings(with_surroundings(std::move(tree), TreeKind::begin), TreeKind::end);
  remove_anchors(tree, true, true, key);
  return tree;
}

}  // namespace trl::text
