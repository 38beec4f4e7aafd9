#include "text/constraint/pattern_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "text/chat_template/unicode.h"
#include "text/constraint/pattern_anchors.h"
#include "text/constraint/pattern_characters.h"
#include "text/constraint/pattern_text.h"

namespace trl::text {

namespace {

constexpr int kMostDepth = 200;
constexpr uint32_t kMostRepeats = 50000;

class PatternParser {
 public:
  // common: what matches does so in every dialect of common_class().
  PatternParser(std::string_view pattern, std::string_view key, bool common)
      : text_(pattern, key), characters_(text_, common), common_(common) {}

  PatternTree parse() {
    read_flags();
    PatternTree tree = alternatives(0);
    if (!text_.is_done()) text_.refuse("')' closes no group", text_.place());
    return tree;
  }

 private:
  using Flags = PatternCharacters::Flags;

  // Reads (?i), (?s) or both at the beginning.
  void read_flags() {
    for (;;) {
      skip_comments();
      const size_t begin = text_.place();
      const std::u32string_view rest = text_.rest();
      if (rest.size() < 3 || !is_ascii_letter(rest[2]) || rest[2] == 'P' || !text_.take(U"(?")) return;
      const Flags on = flag_letters();
      if (!text_.take(U')')) {
        text_.go_to(begin);  // a group with flags of its own
        return;
      }
      set_flags(on, {});
    }
  }

  // Reads "i", "s" or both.
  Flags flag_letters() {
    Flags flags;
    for (; is_ascii_letter(text_.next()); text_.read()) {
      const char32_t c = text_.next();
      if (c == 'i')
        flags.ignore_case = true;
      else if (c == 's')
        flags.dot_all = true;
      else
        text_.refuse(fmt::format("the flag (?{}) is not supported", static_cast<char>(c)), text_.place());
    }
    return flags;
  }

  void set_flags(Flags on, Flags off) {
    Flags& flags = characters_.flags;
    flags.ignore_case = (flags.ignore_case || on.ignore_case) && !off.ignore_case;
    flags.dot_all = (flags.dot_all || on.dot_all) && !off.dot_all;
  }

  void skip_comments() {
    for (size_t begin = text_.place(); text_.take(U"(?#"); begin = text_.place()) {
      while (!text_.is_done() && !text_.is_next(')'))
        if (text_.read() == '\\' && !text_.is_done()) text_.read();
      if (!text_.take(U')')) text_.refuse("the comment is not closed", begin);
    }
  }

  PatternTree alternatives(int depth) {
    if (depth > kMostDepth)
      text_.refuse(fmt::format("groups are nested deeper than {}", kMostDepth), text_.place());
    std::vector<PatternTree> all;
    do all.push_back(terms(depth));
    while (text_.take(U'|'));
    return all.size() == 1 ? std::move(all[0]) : PatternTree::choice(std::move(all));
  }

  PatternTree terms(int depth) {
    std::vector<PatternTree> parts;
    skip_comments();
    while (!text_.is_done() && !text_.is_next('|') && !text_.is_next(')')) {
      const size_t begin = text_.place();
      PatternTree part = atom(depth);
      parts.push_back(repeated(std::move(part), begin));
    }
    return parts.size() == 1 ? std::move(parts[0]) : PatternTree::sequence(std::move(parts));
  }

  PatternTree atom(int depth) {
    const size_t begin = text_.place();
    const char32_t c = text_.read();
    switch (c) {
      case '(':
        return group(begin, depth);
      case '[':
        return characters_.bracketed(begin);
      case '\\':
        return escape(begin);
      case '.':
        return characters_.dot();
      case '^':
        return anchor(PatternTree::Kind::begin);
      case '$':
        return anchor(PatternTree::Kind::end);
      case '*':
      case '+':
      case '?':
        text_.refuse("there is nothing to repeat", begin);
      case '{':
        text_.go_to(begin);
        if (quantifier()) text_.refuse("there is nothing to repeat", begin);
        text_.read();
        return characters_.one(c);
      default:
        return characters_.one(c);
    }
  }

  static PatternTree anchor(PatternTree::Kind side) { return {.kind = side}; }

  // Reads what follows "\".
  PatternTree escape(size_t begin) {
    if (text_.take(U'A')) return anchor(PatternTree::Kind::begin);
    if (text_.take(U'Z')) return anchor(PatternTree::Kind::end);
    if (text_.is_next('z')) text_.refuse("\\z is not an escape before Python 3.14; write \\Z", begin);
    if (text_.is_next('b') || text_.is_next('B'))
      text_.refuse("borders of words, \\b and \\B, are not supported", begin);
    return characters_.escape(begin);
  }

  PatternTree group(size_t begin, int depth) {
    const Flags outside = characters_.flags;
    if (text_.take(U'?')) open_special(begin);
    PatternTree inside = alternatives(depth + 1);
    if (!text_.take(U')')) text_.refuse("the group is not closed", begin);
    characters_.flags = outside;
    return inside;
  }

  // Reads what follows "(?".
  void open_special(size_t begin) {
    if (text_.take(U':')) return;
    if (text_.take(U"=") || text_.take(U"!") || text_.take(U"<=") || text_.take(U"<!"))
      text_.refuse("look-around, (?=, (?!, (?<= and (?<!, is not supported", begin);
    if (text_.take(U"P=")) text_.refuse("back-references are not supported: they are not regular", begin);
    if (text_.take(U">")) text_.refuse("atomic groups, (?>, are not supported", begin);
    if (text_.take(U"(")) text_.refuse("conditions, (?(1), are not supported", begin);
    if (text_.take(U"P<")) return group_name(begin);
    if (text_.take(U"<")) {
      if (!common_) text_.refuse("a group with a name begins with (?P<", begin);
      return group_name(begin);
    }
    if (text_.is_next('-') || is_ascii_letter(text_.next())) return group_flags(begin);
    text_.refuse("the group is of an unknown kind", begin);
  }

  void group_flags(size_t begin) {
    const Flags on = flag_letters();
    if (text_.is_next(')')) text_.refuse("flags of the whole pattern stand at its beginning", begin);
    Flags off;
    if (const size_t minus = text_.place(); text_.take(U'-')) {
      off = flag_letters();
      if (!off.ignore_case && !off.dot_all) text_.refuse("no flag follows the minus", minus);
      if ((on.ignore_case && off.ignore_case) || (on.dot_all && off.dot_all))
        text_.refuse("a flag is turned on and off", begin);
    }
    if (!text_.take(U':')) text_.refuse("a colon is missing behind the flags of a group", begin);
    set_flags(on, off);
  }

  void group_name(size_t begin) {
    const size_t place = text_.place();
    while (!text_.is_done() && !text_.is_next('>')) text_.read();
    const std::u32string_view name = text_.characters().substr(place, text_.place() - place);
    if (name.empty() || !text_.take(U'>')) text_.refuse("the name of a group is missing", begin);
    if (!jinja::begins_name(name[0]) || !std::ranges::all_of(name, jinja::goes_on_in_name))
      text_.refuse("the name of a group has letters, digits and underscores alone, and no digit first",
                   place);
    if (!names_.insert(name).second) text_.refuse("an earlier group has this name", place);
  }

  struct Count {
    uint32_t least, most;
  };

  std::optional<uint32_t> number() {
    if (!is_ascii_digit(text_.next())) return std::nullopt;
    uint32_t value = 0;
    for (; is_ascii_digit(text_.next()); text_.read()) {
      value = value * 10 + static_cast<uint32_t>(text_.next() - '0');
      if (value > kMostRepeats)
        text_.refuse(fmt::format("at most {} repetitions are accepted", kMostRepeats), text_.place());
    }
    return value;
  }

  // nullopt: no quantifier is next, and nothing is read.
  std::optional<Count> quantifier() {
    const size_t begin = text_.place();
    if (text_.take(U'*')) return Count{0, PatternTree::kUnlimited};
    if (text_.take(U'+')) return Count{1, PatternTree::kUnlimited};
    if (text_.take(U'?')) return Count{0, 1};
    if (!text_.take(U'{')) return std::nullopt;
    const std::optional<uint32_t> least = number();
    const bool range = text_.take(U',');
    const std::optional<uint32_t> most = range ? number() : least;
    if ((!least && !range) || !text_.take(U'}')) {
      text_.go_to(begin);
      return std::nullopt;
    }
    const Count count{least.value_or(0), most.value_or(PatternTree::kUnlimited)};
    if (count.least > count.most) text_.refuse("the least number of repetitions is above the most", begin);
    return count;
  }

  PatternTree repeated(PatternTree part, size_t begin) {
    skip_comments();
    const size_t place = text_.place();
    const std::optional<Count> count = quantifier();
    if (!count) return part;
    if (part.kind == PatternTree::Kind::begin || part.kind == PatternTree::Kind::end)
      text_.refuse("an anchor cannot be repeated", begin);
    if (text_.is_next('+')) text_.refuse("possessive quantifiers are not supported", place);
    text_.take(U'?');  // matches the same texts
    skip_comments();
    const size_t next = text_.place();
    if (quantifier()) text_.refuse("a quantifier follows another; put a group between them", next);
    return PatternTree::repeat(std::move(part), count->least, count->most);
  }

  PatternText text_;
  PatternCharacters characters_;
  bool common_;
  std::set<std::u32string_view> names_;  // of groups
};

}  // namespace

PatternTree parse_pattern(std::string_view pattern, std::string_view key) {
  PatternTree tree = PatternParser(pattern, key, false).parse();
  remove_anchors(tree, key);
  return tree;
}

PatternTree parse_part_pattern(std::string_view pattern, std::string_view key) {
  PatternTree tree = with_surroundings(PatternParser(pattern, key, true).parse());
  remove_anchors(tree, key);
  return tree;
}

}  // namespace trl::text
