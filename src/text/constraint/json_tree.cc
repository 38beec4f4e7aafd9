#include "text/constraint/json_tree.h"

#include <algorithm>
#include <span>

#include "base/text/utf8.h"

namespace trl::text {

namespace {

constexpr uint32_t kAny = PatternTree::kUnlimited;

PatternTree json_digits(uint32_t least) {
  return PatternTree::repeat(PatternTree::of({U'0', U'9'}), least, kAny);
}
PatternTree one_of(std::u32string_view characters) {
  CharacterSet set;
  for (const char32_t c : characters) set.add(c, c);
  return PatternTree::of(std::move(set));
}
PatternTree joined(PatternTree a, PatternTree b) {
  std::vector<PatternTree> parts;
  parts.push_back(std::move(a));
  parts.push_back(std::move(b));
  return PatternTree::sequence(std::move(parts));
}
PatternTree between(std::string_view open, PatternTree inside, std::string_view close) {
  return joined(joined(PatternTree::literal(open), std::move(inside)), PatternTree::literal(close));
}

// Characters that stand for themselves in a string.
const CharacterSet& plain_characters() {
  static const CharacterSet set = [] {
    CharacterSet others(0, 0x1F);
    others.add(U'"', U'"');
    others.add(U'\\', U'\\');
    return others.complement();
  }();
  return set;
}

constexpr struct {
  char32_t character, letter;
} kShortEscapes[] = {{U'"', U'"'},  {U'\\', U'\\'}, {U'\b', U'b'}, {U'\f', U'f'},
                     {U'\n', U'n'}, {U'\r', U'r'},  {U'\t', U't'}};

// The same characters as a string writes them; the others of the set are left out.
PatternTree written(const CharacterSet& set) {
  std::vector<PatternTree> forms;
  forms.push_back(PatternTree::of(set.without(plain_characters().complement())));
  CharacterSet letters;
  for (const auto& [character, letter] : kShortEscapes)
    if (set.contains(character)) letters.add(letter, letter);
  if (!letters.empty())
    forms.push_back(joined(PatternTree::literal("\\"), PatternTree::of(std::move(letters))));
  return PatternTree::choice(std::move(forms));
}

void write_characters(PatternTree& tree) {
  if (tree.kind == PatternTree::Kind::characters)
    tree = written(*tree.characters);
  else
    for (PatternTree& part : tree.parts) write_characters(part);
}

// From `least` to `most` of a tree, with commas between.
PatternTree listed(PatternTree one, uint32_t least, uint32_t most) {
  if (most == 0) return {};
  PatternTree all = PatternTree::separated(std::move(one), json_mark(','), std::max(least, 1u), most);
  return least > 0 ? std::move(all) : PatternTree::maybe(std::move(all));
}

// Returns what may follow the beginning that all these sorted names share, up to the quote.
PatternTree name_except(std::span<const std::u32string> names, size_t length) {
  std::vector<PatternTree> forms;
  CharacterSet others = plain_characters();
  if (names.empty() || names[0].size() > length) forms.push_back(PatternTree::literal("\""));
  for (size_t i = 0; i < names.size();) {
    if (names[i].size() == length) {
      ++i;
      continue;
    }
    const char32_t next = names[i][length];
    const size_t begin = i;
    while (i < names.size() && names[i][length] == next) ++i;
    others = others.without({next, next});
    forms.push_back(joined(PatternTree::of(CharacterSet(next, next).without(plain_characters().complement())),
                           name_except(names.subspan(begin, i - begin), length + 1)));
  }
  forms.push_back(joined(
      PatternTree::of(std::move(others)),
      joined(PatternTree::repeat(PatternTree::of(plain_characters()), 0, kAny), PatternTree::literal("\""))));
  return PatternTree::choice(std::move(forms));
}

}  // namespace

PatternTree json_mark(char mark) {
  return joined(PatternTree::literal({&mark, 1}), PatternTree::maybe(PatternTree::literal(" ")));
}

PatternTree json_string(uint32_t least, uint32_t most) {
  CharacterSet letters;
  for (const char32_t letter : U"\"\\/bfnrt")
    if (letter != 0) letters.add(letter, letter);
  std::vector<PatternTree> forms;
  forms.push_back(PatternTree::of(plain_characters()));
  forms.push_back(joined(PatternTree::literal("\\"), PatternTree::of(std::move(letters))));
  return between("\"", PatternTree::repeat(PatternTree::choice(std::move(forms)), least, most), "\"");
}

PatternTree json_string_of(PatternTree value) {
  write_characters(value);
  return between("\"", std::move(value), "\"");
}

PatternTree json_integer() {
  std::vector<PatternTree> forms;
  forms.push_back(PatternTree::literal("0"));
  forms.push_back(joined(PatternTree::of({U'1', U'9'}), json_digits(0)));
  return joined(PatternTree::maybe(PatternTree::literal("-")), PatternTree::choice(std::move(forms)));
}

PatternTree json_number() {
  PatternTree fraction = PatternTree::maybe(joined(PatternTree::literal("."), json_digits(1)));
  PatternTree exponent =
      PatternTree::maybe(joined(joined(one_of(U"eE"), PatternTree::maybe(one_of(U"+-"))), json_digits(1)));
  return joined(json_integer(), joined(std::move(fraction), std::move(exponent)));
}

PatternTree json_boolean() {
  std::vector<PatternTree> forms;
  forms.push_back(PatternTree::literal("true"));
  forms.push_back(PatternTree::literal("false"));
  return PatternTree::choice(std::move(forms));
}

PatternTree json_value(const base::Json& value) {
  std::vector<PatternTree> parts;
  const bool map = value.is_object();
  if (!map && !value.is_array()) return PatternTree::literal(value.dump());
  for (const auto& [name, member] : value.items()) {
    if (!parts.empty()) parts.push_back(json_mark(','));
    if (map) parts.push_back(joined(PatternTree::literal(base::Json(name).dump()), json_mark(':')));
    parts.push_back(json_value(member));
  }
  return between(map ? "{" : "[", PatternTree::sequence(std::move(parts)), map ? "}" : "]");
}

PatternTree json_any(int depth) {
  std::vector<PatternTree> forms;
  forms.push_back(json_string(0, kAny));
  forms.push_back(json_number());
  forms.push_back(json_boolean());
  forms.push_back(PatternTree::literal("null"));
  if (depth > 0) {
    const PatternTree inside = json_any(depth - 1);
    forms.push_back(json_list(inside, 0, kAny));
    forms.push_back(json_map(json_string(0, kAny), inside, 0, kAny));
  }
  return PatternTree::choice(std::move(forms));
}

PatternTree json_member(PatternTree name, PatternTree value) {
  return joined(joined(std::move(name), json_mark(':')), std::move(value));
}

PatternTree json_map(PatternTree name, PatternTree value, uint32_t least, uint32_t most) {
  return between("{", listed(json_member(std::move(name), std::move(value)), least, most), "}");
}

PatternTree json_list(PatternTree value, uint32_t least, uint32_t most) {
  return between("[", listed(std::move(value), least, most), "]");
}

PatternTree json_object(std::vector<PatternTree> members) {
  return between("{", PatternTree::series(json_mark(','), std::move(members)), "}");
}

PatternTree json_name_except(std::vector<std::string> names) {
  std::vector<std::u32string> all;
  for (const std::string& name : names) {
    std::u32string& characters = all.emplace_back();
    for (size_t at = 0; at < name.size();) characters += base::next_code_point(name, at);
  }
  std::ranges::sort(all);
  return joined(PatternTree::literal("\""), name_except(all, 0));
}

PatternTree json_nothing() { return PatternTree::of({}); }

}  // namespace trl::text
