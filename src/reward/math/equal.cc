#include "reward/math/equal.h"

#include <algorithm>
#include <optional>
#include <string>

#include "reward/math/real_set.h"

namespace trl::reward::math {

namespace {

bool is_equation(const Node& node) {
  return node.kind == Kind::relation &&
         std::ranges::all_of(node.relations, [](Relation relation) { return relation == Relation::equal; });
}

bool is_assignment(const Node& node) { return is_equation(node) && is_name(node.children[0]); }

// x = 2 + 3 = 5 says that x is 5.
Node shortened(const Node& assignment) {
  Node out = node_of(Kind::relation, {assignment.children.front(), assignment.children.back()});
  out.relations = {Relation::equal};
  return out;
}

// Returns the letters of a product of symbols such as y e s, which is how a word without \text is read.
std::optional<std::string> letters_of(const Node& node) {
  const auto is_letter = [](const Node& child) {
    return child.kind == Kind::symbol || (child.kind == Kind::constant && child.name == "e");
  };
  if (is_letter(node)) return node.name;
  if (node.kind != Kind::multiply || !std::ranges::all_of(node.children, is_letter)) return std::nullopt;
  std::string out;
  for (const Node& child : node.children) out += child.name;
  return out;
}

bool same_letters(const Node& a, const Node& b) {
  if (a.kind != Kind::symbol && b.kind != Kind::symbol) return false;
  const std::optional<std::string> word = letters_of(a);
  return word && word == letters_of(b);
}

bool same_matrix(const Node& a, const Node& b) {
  return a.kind == b.kind && a.columns == b.columns && std::ranges::equal(a.children, b.children, same_value);
}

}  // namespace

bool same_answer(const Node& solution, const Node& answer) {
  Node a = is_assignment(solution) ? shortened(solution) : solution;
  Node b = is_assignment(answer) ? shortened(answer) : answer;
  if (is_equation(b) && !is_equation(a))
    b = Node(b.children.back());
  else if (is_assignment(a) && !is_equation(b))
    a = Node(a.children.back());
  const bool relation = a.kind == Kind::relation;
  if (relation && b.kind == Kind::relation) return same_relation(a, b);
  if (relation && is_set(b)) {
    const std::optional<RealSet> left = real_set(a);
    const std::optional<RealSet> right = left ? real_set(b) : std::nullopt;
    return left && right && same_numbers(*left, *right);
  }
  if (relation || b.kind == Kind::relation) return false;
  if (is_set(a) || is_set(b)) return same_set(a, b);
  if (a.kind == Kind::matrix || b.kind == Kind::matrix) return same_matrix(a, b);
  return same_letters(a, b) || same_value(a, b);
}

}  // namespace trl::reward::math
