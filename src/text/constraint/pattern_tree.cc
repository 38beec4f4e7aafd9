#include "text/constraint/pattern_tree.h"

#include "base/text/utf8.h"

namespace trl::text {

PatternTree PatternTree::literal(std::string_view text) {
  std::vector<PatternTree> characters;
  for (size_t at = 0; at < text.size();) {
    const char32_t c = base::next_code_point(text, at);
    characters.push_back(of({c, c}));
  }
  return sequence(std::move(characters));
}

PatternTree PatternTree::sequence(std::vector<PatternTree> parts) {
  return {.kind = Kind::sequence, .parts = std::move(parts)};
}

PatternTree PatternTree::choice(std::vector<PatternTree> parts) {
  return {.kind = Kind::choice, .parts = std::move(parts)};
}

PatternTree PatternTree::repeat(PatternTree part, uint32_t least, uint32_t most) {
  PatternTree tree{.kind = Kind::repeat, .least = least, .most = most};
  tree.parts.push_back(std::move(part));
  return tree;
}

PatternTree PatternTree::separated(PatternTree part, PatternTree mark, uint32_t least, uint32_t most) {
  PatternTree tree = repeat(std::move(part), least, most);
  tree.parts.push_back(std::move(mark));
  return tree;
}

PatternTree PatternTree::series(PatternTree mark, std::vector<PatternTree> parts) {
  parts.insert(parts.begin(), std::move(mark));
  return {.kind = Kind::series, .parts = std::move(parts)};
}

}  // namespace trl::text
