#include "text/constraint/json_tree.h"

#include <algorithm>

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
PatternTree maybe(PatternTree tree) { return PatternTree::repeat(std::move(tree), 0, 1); }
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
PatternTree listed(const PatternTree& one, uint32_t least, uint32_t most) {
  if (most == 0) return {};
  const uint32_t more = most == kAny ? kAny : most - 1;
  PatternTree rest = PatternTree::repeat(joined(json_mark(','), one), least > 0 ? least - 1 : 0, more);
  PatternTree all = joined(one, std::move(rest));
  return least > 0 ? std::move(all) : maybe(std::move(all));
}

}  // namespace

PatternTree json_mark(char mark) {
  return joined(PatternTree::literal({&mark, 1}), maybe(PatternTree::literal(" ")));
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
  return joined(maybe(PatternTree::literal("-")), PatternTree::choice(std::move(forms)));
}

PatternTree json_number() {
  PatternTree fraction = maybe(joined(PatternTree::literal("."), json_digits(1)));
  PatternTree exponent = maybe(joined(joined(one_of(U"eE"), maybe(one_of(U"+-"))), json_digits(1)));
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
    forms.push_back(json_map(inside, 0, kAny));
  }
  return PatternTree::choice(std::move(forms));
}

PatternTree json_map(const PatternTree& value, uint32_t least, uint32_t most) {
  const PatternTree member = joined(joined(json_string(0, kAny), json_mark(':')), value);
  return between("{", listed(member, least, most), "}");
}

PatternTree json_list(const PatternTree& value, uint32_t least, uint32_t most) {
  return between("[", listed(value, least, most), "]");
}

PatternTree json_object(std::vector<JsonMember> members) {
  const auto found = std::ranges::find_if(members, &JsonMember::required);
  const auto rest_after = [&](size_t i) {
    std::vector<PatternTree> rest;
    for (; i < members.size(); ++i) {
      PatternTree next = joined(json_mark(','), members[i].tree);
      rest.push_back(members[i].required ? std::move(next) : maybe(std::move(next)));
    }
    return PatternTree::sequence(std::move(rest));
  };
  if (found != members.end()) {
    std::vector<PatternTree> parts;
    for (auto one = members.begin(); one != found; ++one)
      parts.push_back(maybe(joined(one->tree, json_mark(','))));
    parts.push_back(found->tree);
    parts.push_back(rest_after(static_cast<size_t>(found - members.begin()) + 1));
    return between("{", PatternTree::sequence(std::move(parts)), "}");
  }
  std::vector<PatternTree> by_first(1);  // none
  for (size_t i = 0; i < members.size(); ++i) by_first.push_back(joined(members[i].tree, rest_after(i + 1)));
  return between("{", PatternTree::choice(std::move(by_first)), "}");
}

}  // namespace trl::text
