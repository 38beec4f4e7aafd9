// Equality, order and arithmetic. Sums, differences and products of 64-bit integers may be larger.
// Calculating with larger integers, which Python can do, fails here.
#include <algorithm>
#include <cmath>

#include "text/chat_template/python.h"

namespace trl::text::jinja {

namespace {

bool same_sequence_class(SequenceType a, SequenceType b) {
  const auto tuple = [](SequenceType t) { return t == SequenceType::tuple || t == SequenceType::group; };
  return a == b || (tuple(a) && tuple(b));
}

bool equal_mappings(Run& run, const Mapping& a, const Mapping& b) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [key, value] : a.entries) {
    const Value* other = b.find(key);
    if (!other || !equal(run, value, *other)) return false;
  }
  return true;
}

[[noreturn]] void unsupported(Run& run, Operator op, const Value& a, const Value& b) {
  constexpr std::string_view kSymbols[] = {"+", "-", "*", "/", "//", "%", "** or pow()"};
  run.fail("unsupported operand type(s) for {}: '{}' and '{}'", kSymbols[static_cast<size_t>(op)],
           type_name(a), type_name(b));
}

int64_t integer_power(Run& run, int64_t base, int64_t exponent) {
  int64_t result = 1;
  bool overflow = false;
  while (exponent > 0) {
    if (exponent & 1) overflow |= __builtin_mul_overflow(result, base, &result);
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) overflow = true;
    if (overflow) break;
  }
  if (overflow) run.fail("an integer outside 64 bits");
  return result;
}

int64_t floor_quotient(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  return quotient - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}

Value wide_integer(__int128 value) {
  const auto narrow = static_cast<int64_t>(value);
  return narrow == value ? Value::integer(narrow) : Value::whole(fmt::format("{}", value));
}

Value integer_arithmetic(Run& run, Operator op, int64_t a, int64_t b) {
  switch (op) {
    case Operator::add:
      return wide_integer(static_cast<__int128>(a) + b);
    case Operator::subtract:
      return wide_integer(static_cast<__int128>(a) - b);
    case Operator::multiply:
      return wide_integer(static_cast<__int128>(a) * b);
    case Operator::power:
      if (b < 0) {
        if (a == 0) run.fail("0.0 cannot be raised to a negative power");
        return Value::real(std::pow(static_cast<double>(a), static_cast<double>(b)));
      }
      return Value::integer(integer_power(run, a, b));
    default:
      break;
  }
  if (b == 0) run.fail("division by zero");
  if (op == Operator::divide) return Value::real(static_cast<double>(a) / static_cast<double>(b));
  if (b == -1) return op == Operator::modulo ? Value::integer(0) : negate(run, Value::integer(a));
  const int64_t quotient = floor_quotient(a, b);
  return Value::integer(op == Operator::floor_divide ? quotient : a - quotient * b);
}

Value real_arithmetic(Run& run, Operator op, double a, double b) {
  switch (op) {
    case Operator::add:
      return Value::real(a + b);
    case Operator::subtract:
      return Value::real(a - b);
    case Operator::multiply:
      return Value::real(a * b);
    case Operator::power:
      if (a == 0 && b < 0) run.fail("0.0 cannot be raised to a negative power");
      if (a < 0 && std::floor(b) != b) run.fail("a negative number to a fractional power is complex");
      return Value::real(std::pow(a, b));
    default:
      break;
  }
  if (b == 0) run.fail("division by zero");
  if (op == Operator::divide) return Value::real(a / b);
  double rest = std::fmod(a, b);
  if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
  if (rest == 0) rest = std::copysign(0.0, b);
  return Value::real(op == Operator::modulo ? rest : std::round((a - rest) / b));
}

Value repeat(Run& run, const Value& value, int64_t count) {
  const auto times = static_cast<size_t>(std::max<int64_t>(count, 0));
  if (value.is_text()) {
    Writer out(run);
    out.append(times, value.bytes());
    return out.value(value.text().markup);
  }
  const Values& items = value.sequence().items;
  if (!items.empty() && times > kMaxItems / items.size()) run.fail("a list of more than {} items", kMaxItems);
  Values result;
  result.reserve(items.empty() ? 0 : times * items.size());
  for (size_t i = 0; i < times && !items.empty(); ++i)
    result.insert(result.end(), items.begin(), items.end());
  return run.sequence(value.sequence().type, std::move(result));
}

bool repeatable(const Value& value) {
  return value.is_text() || value.is_sequence(SequenceType::list) || value.is_sequence(SequenceType::tuple);
}

Value add(Run& run, const Value& a, const Value& b) {
  if (a.is_text() && b.is_text()) {
    const bool markup = a.text().markup || b.text().markup;
    Writer out(run);
    for (const Value* part : {&a, &b})
      if (markup && !part->text().markup)
        write_escaped(out, part->bytes());
      else
        out.append(part->bytes());
    return out.value(markup);
  }
  if (a.is(Kind::sequence) && b.is(Kind::sequence) && repeatable(a) &&
      same_sequence_class(a.sequence().type, b.sequence().type)) {
    Values items = a.sequence().items;
    items.insert(items.end(), b.sequence().items.begin(), b.sequence().items.end());
    return run.sequence(a.sequence().type, std::move(items));
  }
  if (a.is_text()) run.fail("can only concatenate str (not \"{}\") to str", type_name(b));
  if (a.is_sequence(SequenceType::list))
    run.fail("can only concatenate list (not \"{}\") to list", type_name(b));
  if (a.is_sequence(SequenceType::tuple))
    run.fail("can only concatenate tuple (not \"{}\") to tuple", type_name(b));
  unsupported(run, Operator::add, a, b);
}

// Returns a negative number, zero or a positive one if a is less than, equal to or greater than b; nullopt:
// no numbers, or NaN. One of them is large.
std::optional<int> compare_large(const Value& a, const Value& b) {
  if (!a.is_large()) {
    const auto order = compare_large(b, a);
    return order ? std::optional(-*order) : std::nullopt;
  }
  const bool negative = a.digits().starts_with('-');
  const int outside = negative ? -1 : 1;
  if (b.is_integral()) return outside;
  if (b.is(Kind::real)) {
    if (std::isnan(b.real())) return std::nullopt;
    const bool nearer = std::abs(b.real()) < 9.2e18;
    if (nearer || std::isinf(b.real())) return nearer ? outside : b.real() < 0 ? 1 : -1;
    return compare_large(a, Value::whole(fmt::format("{:.0f}", b.real())));  // no fraction at this size
  }
  if (!b.is_large()) return std::nullopt;
  if (negative != b.digits().starts_with('-')) return outside;
  if (a.digits().size() != b.digits().size())
    return a.digits().size() > b.digits().size() ? outside : -outside;
  const int order = a.digits().compare(b.digits());
  return negative ? -order : order;
}

}  // namespace

bool equal(Run& run, const Value& a, const Value& b) {
  run.spend(1);
  if (a.is(Kind::sequence) && b.is(Kind::sequence)) {
    const Sequence& x = a.sequence();
    const Sequence& y = b.sequence();
    if (&x == &y) return true;
    if (!same_sequence_class(x.type, y.type) || x.type == SequenceType::iterator) return false;
    if (x.items.size() != y.items.size()) return false;
    for (size_t i = 0; i < x.items.size(); ++i)
      if (!equal(run, x.items[i], y.items[i])) return false;
    return true;
  }
  if (a.is(Kind::mapping) && b.is(Kind::mapping)) return equal_mappings(run, a.mapping(), b.mapping());
  if (a.is_text() && b.is_text()) run.spend(static_cast<int64_t>(a.bytes().size() / 64));
  return !a.is(Kind::mapping) && !a.is(Kind::sequence) && same_key(a, b);
}

bool ordered(Run& run, Order order, const Value& a, const Value& b) {
  run.spend(1);
  for (const Value* value : {&a, &b})
    if (value->is_undefined()) run.fail_undefined(*value);
  const auto decide = [&](const auto& x, const auto& y) {
    switch (order) {
      case Order::less:
        return x < y;
      case Order::less_equal:
        return x <= y;
      case Order::greater:
        return x > y;
      case Order::greater_equal:
        return x >= y;
    }
    return false;
  };
  if (a.is_large() || b.is_large()) {
    if (const auto sign = compare_large(a, b)) return decide(*sign, 0);
    if (a.is(Kind::real) || b.is(Kind::real)) return false;  // NaN
  }
  if (a.is_integral() && b.is_integral()) return decide(a.integer(), b.integer());
  if (a.is_number() && b.is_number()) return decide(a.real(), b.real());
  if (a.is_text() && b.is_text()) {
    run.spend(static_cast<int64_t>(a.bytes().size() / 64));
    return decide(a.bytes(), b.bytes());  // UTF-8 sorts as its code points do
  }
  if (repeatable(a) && repeatable(b) && a.sequence().type == b.sequence().type) {
    const Values& x = a.sequence().items;
    const Values& y = b.sequence().items;
    for (size_t i = 0; i < x.size() && i < y.size(); ++i)
      if (!equal(run, x[i], y[i])) return ordered(run, order, x[i], y[i]);
    return decide(x.size(), y.size());
  }
  constexpr std::string_view kSymbols[] = {"<", "<=", ">", ">="};
  run.fail("'{}' not supported between instances of '{}' and '{}'", kSymbols[static_cast<size_t>(order)],
           type_name(a), type_name(b));
}

Value arithmetic(Run& run, Operator op, const Value& a, const Value& b) {
  if (a.is_undefined()) run.fail_undefined(a);
  if (op == Operator::modulo && a.is_text()) return format_percent(run, a, b);
  if (b.is_undefined()) run.fail_undefined(b);
  if (a.is_integral() && b.is_integral()) return integer_arithmetic(run, op, a.integer(), b.integer());
  if (a.is_number() && b.is_number()) return real_arithmetic(run, op, a.real(), b.real());
  if ((a.is_large() && (b.is_large() || b.is_number())) || (b.is_large() && a.is_number()))
    run.fail("arithmetic with an integer outside 64 bits");
  if (op == Operator::add) return add(run, a, b);
  if (op == Operator::multiply) {
    if (repeatable(a) && b.is_integral()) return repeat(run, a, b.integer());
    if (repeatable(b) && a.is_integral()) return repeat(run, b, a.integer());
  }
  unsupported(run, op, a, b);
}

Value negate(Run& run, const Value& value) {
  if (value.is_undefined()) run.fail_undefined(value);
  if (value.is(Kind::real)) return Value::real(-value.real());
  if (value.is_large()) {
    const bool negative = value.digits().starts_with('-');
    return Value::whole(negative ? value.digits().substr(1) : "-" + value.digits());
  }
  if (!value.is_integral()) run.fail("bad operand type for unary -: '{}'", type_name(value));
  return wide_integer(-static_cast<__int128>(value.integer()));
}

Value plus(Run& run, const Value& value) {
  if (value.is_undefined()) run.fail_undefined(value);
  if (value.is(Kind::real) || value.is_large()) return value;
  if (!value.is_integral()) run.fail("bad operand type for unary +: '{}'", type_name(value));
  return Value::integer(value.integer());
}

Value real_to_integer(Run& run, double value) {
  if (std::isnan(value) || std::isinf(value))
    run.fail("cannot convert float {} to integer", real_repr(value));
  const double whole = std::trunc(value);
  if (!(std::abs(whole) < 9.2233720368547748e18)) return Value::whole(fmt::format("{:.0f}", whole));
  return Value::integer(static_cast<int64_t>(whole));
}

}  // namespace trl::text::jinja
