#include <algorithm>
#include <cmath>

#include "reward/math/equal.h"
#include "reward/math/sample.h"

namespace trl::reward::math {

namespace {

constexpr double kDecimals = 1e6;                      // six digits after the point count
constexpr double kExactDecimals = 9007199254740992.0;  // 2^53: beyond it doubles have no such digits

bool has_symbols(const Node& node) {
  return node.kind == Kind::symbol || node.kind == Kind::application ||
         std::ranges::any_of(node.children, has_symbols);
}

// Returns the number of a number or of a percentage of it.
const Number* number_of(const Node& node) {
  if (node.kind == Kind::number) return &node.number;
  const bool percentage = node.kind == Kind::percent && node.children[0].kind == Kind::number;
  return percentage ? &node.children[0].number : nullptr;
}

bool is_decimal(const Node& node) {
  const Number* number = number_of(node);
  return number != nullptr && number->decimal;
}

bool is_whole(const Node& node) { return node.kind == Kind::number && is_integer(node.number); }

// 50% is accepted for 50.
bool same_percentage(const Node& a, const Node& b) {
  const Number* x = number_of(a);
  const Number* y = number_of(b);
  return x != nullptr && y != nullptr && is_integer(*x) && is_integer(*y) &&
         same_expression(number_node(*x), number_node(*y));
}

bool same_rounded(const Node& a, const Node& b) {
  for (int point = 0; point < 2; ++point) {
    const Sample x = sample(a, point);
    const Sample y = sample(b, point);
    if (!is_defined(x) || !is_defined(y)) return false;
    if (std::abs(x.value.imag()) > x.error || std::abs(y.value.imag()) > y.error) return false;
    const double left = x.value.real() * kDecimals;
    const double right = y.value.real() * kDecimals;
    if (std::abs(left) >= kExactDecimals) return same_expression(a, b);
    if (std::nearbyint(left) != std::nearbyint(right)) return false;
  }
  return true;
}

}  // namespace

bool same_expression(const Node& a, const Node& b) {
  const bool symbols = has_symbols(a) || has_symbols(b);
  const int points = symbols ? kPoints : 2;
  int agreed = 0;
  for (int point = 0; point < points; ++point) {
    const std::optional<bool> same = agree(sample(a, point), sample(b, point));
    if (same == false) return false;
    agreed += same.has_value() ? 1 : 0;
  }
  return 2 * agreed >= points;
}

bool same_value(const Node& a, const Node& b) {
  const int sign = infinite_sign(a);
  if (sign != 0 || infinite_sign(b) != 0) return sign == infinite_sign(b);
  if (same_percentage(a, b)) return true;
  if ((is_decimal(a) || is_decimal(b)) && !is_whole(a) && !is_whole(b)) return same_rounded(a, b);
  return same_expression(a, b);
}

}  // namespace trl::reward::math
