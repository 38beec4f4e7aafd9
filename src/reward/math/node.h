// Represents an answer as a tree of numbers, symbols, functions, sets and relations.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "reward/math/number.h"

namespace trl::reward::math {

enum class Kind {
  number,
  constant,     // name: pi, e, i
  infinity,     // positive
  symbol,       // name, in small letters: x, x_1, alpha, the words of \text{...}
  application,  // f(x): name is the text of it; children are the arguments
  add,
  multiply,  // children in the order in which they are written
  divide,    // two children
  power,     // two children
  function,  // of name: abs, sin, log (of a number, to a base), ...
  percent,   // of its child
  matrix,    // children row by row; columns
  finite_set,
  tuple,
  interval,   // two children; left_open, right_open
  named_set,  // name: R, Z, ...
  set_union,  // two children, as the next two
  intersection,
  difference,
  relation,  // a = b < c: children a, b, c; relations =, <
};

enum class Relation { equal, unequal, less, less_equal, greater, greater_equal };

struct Node {
  Kind kind = Kind::number;
  Number number = {};
  std::string name = {};
  std::vector<Node> children = {};
  std::vector<Relation> relations = {};
  size_t columns = 0;
  bool left_open = false, right_open = false;
};

inline Node number_node(Number number) { return {.kind = Kind::number, .number = std::move(number)}; }
inline Node name_node(Kind kind, std::string name) { return {.kind = kind, .name = std::move(name)}; }
inline Node node_of(Kind kind, std::vector<Node> children) {
  return {.kind = kind, .children = std::move(children)};
}
inline Node function_node(std::string name, std::vector<Node> arguments) {
  return {.kind = Kind::function, .name = std::move(name), .children = std::move(arguments)};
}

bool is_set(const Node& node);         // everything from finite_set to difference, tuples included
bool is_expression(const Node& node);  // neither a set nor a relation nor a matrix
// Returns whether only symbols name a value, as on the left of x = 5, f(x) = 5 and AB = 5.
bool is_name(const Node& node);
// Returns 1 for infinity and its positive multiples, -1 for the negative ones, 0 for anything else.
int infinite_sign(const Node& node);
Relation reversed(Relation relation);  // a < b is b > a

}  // namespace trl::reward::math
