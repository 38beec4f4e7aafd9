#include "reward/math/real_set.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "reward/math/sample.h"

namespace trl::reward::math {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool is_empty(const Piece& piece) {
  return piece.low > piece.high || (piece.low == piece.high && (piece.low_open || piece.high_open));
}

RealSet united(RealSet pieces) {
  std::erase_if(pieces, is_empty);
  std::ranges::sort(pieces, [](const Piece& a, const Piece& b) {
    return std::pair(a.low, a.low_open) < std::pair(b.low, b.low_open);
  });
  RealSet out;
  for (const Piece& piece : pieces) {
    const bool apart = out.empty() || out.back().high < piece.low ||
                       (out.back().high == piece.low && out.back().high_open && piece.low_open);
    if (apart) {
      out.push_back(piece);
    } else if (std::pair(out.back().high, !out.back().high_open) < std::pair(piece.high, !piece.high_open)) {
      out.back().high = piece.high;
      out.back().high_open = piece.high_open;
    }
  }
  return out;
}

RealSet complement(const RealSet& set) {
  RealSet out;
  Piece gap{-kInfinity, kInfinity, true, true};
  for (const Piece& piece : set) {
    gap.high = piece.low;
    gap.high_open = !piece.low_open;
    if (!is_empty(gap)) out.push_back(gap);
    gap = {piece.high, kInfinity, !piece.high_open, true};
  }
  if (!is_empty(gap)) out.push_back(gap);
  return out;
}

RealSet intersected(const RealSet& a, const RealSet& b) {
  RealSet outside = complement(a);
  const RealSet other = complement(b);
  outside.insert(outside.end(), other.begin(), other.end());
  return complement(united(std::move(outside)));
}

Piece between(double low, double high, bool low_open, bool high_open) {
  return {low, high, low_open || std::isinf(low), high_open || std::isinf(high)};
}

RealSet below_or_above(Relation relation, double bound) {
  switch (relation) {
    case Relation::less:
    case Relation::less_equal:
      return united({between(-kInfinity, bound, true, relation == Relation::less)});
    case Relation::greater:
    case Relation::greater_equal:
      return united({between(bound, kInfinity, relation == Relation::greater, true)});
    case Relation::unequal:
      return complement({{bound, bound}});
    default:
      return {{bound, bound}};
  }
}

// Returns the solutions x of a chain of relations between x and constants.
std::optional<RealSet> solutions(const Node& chain) {
  RealSet out = {{-kInfinity, kInfinity, true, true}};
  std::string variable;
  for (size_t i = 0; i < chain.relations.size(); ++i) {
    const bool on_left = chain.children[i].kind == Kind::symbol;
    const Node& symbol = chain.children[on_left ? i : i + 1];
    if (symbol.kind != Kind::symbol || (!variable.empty() && variable != symbol.name)) return std::nullopt;
    variable = symbol.name;
    const Node& other = chain.children[on_left ? i + 1 : i];
    const std::optional<double> bound = is_expression(other) ? constant_value(other) : std::nullopt;
    if (!bound) return std::nullopt;
    const Relation relation = on_left ? chain.relations[i] : reversed(chain.relations[i]);
    out = intersected(out, below_or_above(relation, *bound));
  }
  return out;
}

std::optional<RealSet> points(const std::vector<Node>& elements) {
  RealSet out;
  for (const Node& element : elements) {
    const std::optional<double> value = is_expression(element) ? constant_value(element) : std::nullopt;
    if (!value || std::isinf(*value)) return std::nullopt;
    out.push_back({*value, *value});
  }
  return united(std::move(out));
}

bool near(double a, double b) {
  return a == b || std::abs(a - b) <= 1e-9 * std::max({1.0, std::abs(a), std::abs(b)});
}

}  // namespace

std::optional<RealSet> real_set(const Node& node) {
  switch (node.kind) {
    case Kind::relation:
      return solutions(node);
    case Kind::finite_set:
      return points(node.children);
    case Kind::named_set:
      return node.name == "R" ? std::optional(RealSet{{-kInfinity, kInfinity, true, true}}) : std::nullopt;
    case Kind::interval: {
      const std::optional<double> low = constant_value(node.children[0]);
      const std::optional<double> high = constant_value(node.children[1]);
      if (!low || !high) return std::nullopt;
      return united({between(*low, *high, node.left_open, node.right_open)});
    }
    case Kind::set_union:
    case Kind::intersection:
    case Kind::difference: {
      std::optional<RealSet> left = real_set(node.children[0]);
      const std::optional<RealSet> right = real_set(node.children[1]);
      if (!left || !right) return std::nullopt;
      if (node.kind == Kind::intersection) return intersected(*left, *right);
      if (node.kind == Kind::difference) return intersected(*left, complement(*right));
      left->insert(left->end(), right->begin(), right->end());
      return united(std::move(*left));
    }
    default:
      return std::nullopt;
  }
}

bool same_numbers(const RealSet& a, const RealSet& b) {
  return std::ranges::equal(a, b, [](const Piece& x, const Piece& y) {
    return near(x.low, y.low) && near(x.high, y.high) && x.low_open == y.low_open &&
           x.high_open == y.high_open;
  });
}

std::optional<double> constant_value(const Node& expression) {
  if (const int sign = infinite_sign(expression); sign != 0) return sign * kInfinity;
  const Sample first = sample(expression, 0);
  const Sample second = sample(expression, 1);
  if (!is_defined(first) || first.value.imag() != 0 || first.value != second.value) return std::nullopt;
  return first.value.real();
}

bool can_be_interval(const Node& pair) {
  if (pair.left_open != pair.right_open) return true;
  if (!std::ranges::all_of(pair.children, is_expression)) return false;
  const std::optional<double> low = constant_value(pair.children[0]);
  const std::optional<double> high = constant_value(pair.children[1]);
  if (!low || !high) return true;
  return pair.left_open ? *low < *high : *low <= *high;
}

}  // namespace trl::reward::math
