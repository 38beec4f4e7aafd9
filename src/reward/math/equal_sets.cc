#include <algorithm>
#include <optional>

#include "reward/math/equal.h"
#include "reward/math/real_set.h"

namespace trl::reward::math {

namespace {

Node as_set(const Node& node) { return is_set(node) ? node : node_of(Kind::finite_set, {node}); }

void remove_repeated(std::vector<Node>& elements) {
  std::vector<Node> out;
  for (Node& element : elements) {
    const bool known = is_expression(element) && std::ranges::any_of(out, [&](const Node& other) {
                         return is_expression(other) && same_expression(other, element);
                       });
    if (!known) out.push_back(std::move(element));
  }
  elements = std::move(out);
}

bool same_in_order(const std::vector<Node>& solution, const std::vector<Node>& answer) {
  return std::ranges::equal(solution, answer, same_answer);
}

bool same_in_any_order(const std::vector<Node>& solution, std::vector<Node> answer) {
  if (solution.size() != answer.size()) return false;
  return std::ranges::all_of(solution, [&](const Node& element) {
    const auto found =
        std::ranges::find_if(answer, [&](const Node& other) { return same_answer(element, other); });
    if (found == answer.end()) return false;
    answer.erase(found);
    return true;
  });
}

bool has_elements(const Node& node) { return node.kind == Kind::finite_set || node.kind == Kind::tuple; }

// Returns (1, 2) as a pair of numbers, for a comparison with a list.
Node as_elements(const Node& node) {
  const bool pair = node.kind == Kind::interval && node.left_open && node.right_open;
  return pair ? node_of(Kind::tuple, node.children) : node;
}

bool same_elements(Node solution, Node answer) {
  for (Node* set : {&solution, &answer})
    if (set->kind == Kind::finite_set) remove_repeated(set->children);
  return solution.kind == Kind::tuple ? same_in_order(solution.children, answer.children)
                                      : same_in_any_order(solution.children, answer.children);
}

bool same_interval(const Node& a, const Node& b) {
  return a.left_open == b.left_open && a.right_open == b.right_open && same_in_order(a.children, b.children);
}

}  // namespace

bool same_set(const Node& solution, const Node& answer) {
  const Node a = as_set(solution);
  const Node b = as_set(answer);
  if (a.kind == Kind::interval && b.kind == Kind::interval) return same_interval(a, b);
  if (has_elements(a) && has_elements(b)) return same_elements(a, b);
  if (a.kind == Kind::named_set && b.kind == Kind::named_set && a.name == b.name) return true;
  const std::optional<RealSet> left = real_set(a);
  const std::optional<RealSet> right = left ? real_set(b) : std::nullopt;
  if (left && right && same_numbers(*left, *right)) return true;
  if (a.kind == b.kind) return same_in_order(a.children, b.children) && !a.children.empty();
  const Node pair = as_elements(a);
  const Node other = as_elements(b);
  return has_elements(pair) && has_elements(other) && same_elements(pair, other);
}

}  // namespace trl::reward::math
