#include <algorithm>
#include <cmath>
#include <optional>

#include "reward/math/equal.h"
#include "reward/math/sample.h"

namespace trl::reward::math {

namespace {

struct Comparison {
  Node left, right;
  Relation relation;
};

Comparison at(const Node& chain, size_t i) {
  return {chain.children[i], chain.children[i + 1], chain.relations[i]};
}

Node reversed_chain(const Node& chain) {
  Node out = chain;
  std::ranges::reverse(out.children);
  std::ranges::reverse(out.relations);
  for (Relation& relation : out.relations) relation = reversed(relation);
  return out;
}

Node difference_of(const Comparison& comparison) {
  const Node minus = node_of(Kind::multiply, {number_node(integer(-1)), comparison.right});
  return node_of(Kind::add, {comparison.left, minus});
}

// Returns the number by which the one difference is a multiple of the other everywhere.
std::optional<double> constant_ratio(const Comparison& a, const Comparison& b) {
  const Node ratio = node_of(Kind::divide, {difference_of(a), difference_of(b)});
  std::optional<Sample> first;
  for (int point = 0; point < kPoints; ++point) {
    Sample value = sample(ratio, point);
    value.residue.reset();  // the primes differ
    if (!is_defined(value) || value.value.imag() != 0) return std::nullopt;
    if (!first) first = value;
    if (agree(*first, value) != true) return std::nullopt;
  }
  return first->value.real();
}

bool same_comparison(const Comparison& a, const Comparison& b) {
  const bool sets =
      !is_expression(a.left) || !is_expression(a.right) || !is_expression(b.left) || !is_expression(b.right);
  if (sets) return a.relation == b.relation && same_answer(a.left, b.left) && same_answer(a.right, b.right);
  if (a.relation != b.relation && a.relation != reversed(b.relation)) return false;
  const std::optional<double> ratio = constant_ratio(a, b);
  if (!ratio || std::abs(*ratio) < 1e-12) return false;
  if (a.relation == reversed(a.relation)) return true;  // equations
  return (*ratio > 0) == (a.relation == b.relation);
}

bool same_chain(const Node& a, const Node& b) {
  if (a.relations.size() != b.relations.size()) return false;
  for (size_t i = 0; i < a.relations.size(); ++i)
    if (!same_comparison(at(a, i), at(b, i))) return false;
  return true;
}

}  // namespace

bool same_relation(const Node& a, const Node& b) {
  return same_chain(a, b) || same_chain(a, reversed_chain(b));
}

}  // namespace trl::reward::math
