#include "reward/math/node.h"

#include <algorithm>

namespace trl::reward::math {

bool is_set(const Node& node) { return node.kind >= Kind::finite_set && node.kind <= Kind::difference; }

bool is_expression(const Node& node) { return node.kind < Kind::matrix; }

bool is_name(const Node& node) {
  if (node.kind == Kind::symbol) return true;
  return !node.children.empty() && std::ranges::all_of(node.children, is_name);
}

int infinite_sign(const Node& node) {
  if (node.kind == Kind::infinity) return 1;
  if (node.kind != Kind::multiply) return 0;
  int sign = 1;
  bool infinite = false;
  for (const Node& child : node.children) {
    if (child.kind == Kind::infinity)
      infinite = true;
    else if (child.kind != Kind::number)
      return 0;
    else if (child.number.negative)
      sign = -sign;
  }
  return infinite ? sign : 0;
}

Relation reversed(Relation relation) {
  switch (relation) {
    case Relation::less:
      return Relation::greater;
    case Relation::less_equal:
      return Relation::greater_equal;
    case Relation::greater:
      return Relation::less;
    case Relation::greater_equal:
      return Relation::less_equal;
    default:
      return relation;
  }
}

}  // namespace trl::reward::math
