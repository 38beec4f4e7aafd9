#include "text/constraint/pattern_anchors.h"

#include <algorithm>
#include <vector>

#include "base/error.h"

namespace trl::text {

namespace {

bool is_anchor(const PatternTree& tree) {
  return tree.kind == PatternTree::Kind::begin || tree.kind == PatternTree::Kind::end;
}

// at_begin, at_end: nothing precedes or follows the tree.
void remove_anchors_of(PatternTree& tree, bool at_begin, bool at_end, std::string_view key) {
  const auto refuse = [&](std::string_view mark, std::string_view where) {
    fail_key(key, "{}: {} is accepted only at the {} of the pattern or of an alternative there", key, mark,
             where);
  };
  if (tree.kind == PatternTree::Kind::begin && !at_begin) refuse("^", "beginning");
  if (tree.kind == PatternTree::Kind::end && !at_end) refuse("$", "end");
  if (is_anchor(tree)) tree = PatternTree();
  if (tree.kind == PatternTree::Kind::repeat) at_begin = at_end = false;
  if (tree.kind != PatternTree::Kind::sequence) {
    for (PatternTree& part : tree.parts) remove_anchors_of(part, at_begin, at_end, key);
    return;
  }
  const auto first = std::ranges::find_if_not(
      tree.parts, [](const PatternTree& part) { return part.kind == PatternTree::Kind::begin; });
  const auto begun = static_cast<size_t>(first - tree.parts.begin());
  size_t ended = tree.parts.size();
  while (ended > 0 && tree.parts[ended - 1].kind == PatternTree::Kind::end) --ended;
  for (size_t i = 0; i < tree.parts.size(); ++i)
    remove_anchors_of(tree.parts[i], at_begin && i <= begun, at_end && i + 1 >= ended, key);
}

PatternTree anything() {
  return PatternTree::repeat(PatternTree::of({0, CharacterSet::kLast}), 0, PatternTree::kUnlimited);
}

// Whether a tree has an anchor of this kind at its side.
bool has_anchor(const PatternTree& tree, PatternTree::Kind anchor) {
  if (tree.kind == PatternTree::Kind::choice)
    return std::ranges::any_of(tree.parts, [&](const PatternTree& part) { return has_anchor(part, anchor); });
  if (tree.kind != PatternTree::Kind::sequence || tree.parts.empty()) return tree.kind == anchor;
  return has_anchor(anchor == PatternTree::Kind::begin ? tree.parts.front() : tree.parts.back(), anchor);
}

// Puts any text at the side of this anchor, unless the tree has the anchor there.
PatternTree with_side(PatternTree tree, PatternTree::Kind anchor) {
  const bool before = anchor == PatternTree::Kind::begin;
  if (tree.kind == anchor) return {};
  if (tree.kind == PatternTree::Kind::choice) {
    for (PatternTree& part : tree.parts) part = with_side(std::move(part), anchor);
    return tree;
  }
  if (tree.kind == PatternTree::Kind::sequence && has_anchor(tree, anchor)) {
    PatternTree& part = before ? tree.parts.front() : tree.parts.back();
    if (part.kind != anchor) part = with_side(std::move(part), anchor);
    return tree;
  }
  std::vector<PatternTree> all;
  all.push_back(before ? anything() : std::move(tree));
  all.push_back(before ? std::move(tree) : anything());
  return PatternTree::sequence(std::move(all));
}

}  // namespace

void remove_anchors(PatternTree& tree, std::string_view key) { remove_anchors_of(tree, true, true, key); }

PatternTree with_surroundings(PatternTree tree) {
  return with_side(with_side(std::move(tree), PatternTree::Kind::begin), PatternTree::Kind::end);
}

}  // namespace trl::text
