// Jinja's tests: the names after `is`.
#include "text/chat_template/filters.h"
#include "text/chat_template/methods.h"
#include "text/chat_template/python.h"

namespace trl::text::jinja {

namespace {

bool is_defined(Run&, const Value& v, Arguments) { return !v.is_undefined(); }
bool is_undefined(Run&, const Value& v, Arguments) { return v.is_undefined(); }
bool is_none(Run&, const Value& v, Arguments) { return v.is_none(); }
bool is_boolean(Run&, const Value& v, Arguments) { return v.is(Kind::boolean); }
bool is_false(Run&, const Value& v, Arguments) { return v.is(Kind::boolean) && !v.boolean(); }
bool is_true(Run&, const Value& v, Arguments) { return v.is(Kind::boolean) && v.boolean(); }
bool is_integer(Run&, const Value& v, Arguments) { return v.is(Kind::integer) || v.is_large(); }
bool is_float(Run&, const Value& v, Arguments) { return v.is(Kind::real); }
bool is_number(Run&, const Value& v, Arguments) { return v.is_number() || v.is_large(); }
bool is_string(Run&, const Value& v, Arguments) { return v.is_text(); }
bool is_mapping(Run&, const Value& v, Arguments) { return v.is(Kind::mapping); }
bool is_iterable(Run&, const Value& v, Arguments) { return iterable(v); }
bool is_callable(Run&, const Value& v, Arguments) {
  return v.is_undefined() || (v.is(Kind::object) && v.object()->callable());  // Undefined has __call__
}
bool is_escaped(Run&, const Value& v, Arguments) { return v.is_text() && v.text().markup; }
bool is_sequence(Run&, const Value& v, Arguments) {  // has a length and can be indexed
  if (v.is(Kind::sequence)) return v.sequence().type <= SequenceType::range;
  return v.is_text() || v.is(Kind::mapping) || v.is_undefined();
}

Value only(Run& run, std::string_view test, Arguments arguments) {
  return Parameters(run, test, std::move(arguments), {"other"}, 1)[0];
}

int64_t remainder(Run& run, const Value& v, const Value& divisor) {
  const Value rest = arithmetic(run, Operator::modulo, v, divisor);
  if (!rest.is_number()) return -1;
  return rest.is(Kind::real) ? (rest.real() == 0 ? 0 : rest.real() == 1 ? 1 : -1) : rest.integer();
}

bool is_odd(Run& run, const Value& v, Arguments) { return remainder(run, v, Value::integer(2)) == 1; }
bool is_even(Run& run, const Value& v, Arguments) { return remainder(run, v, Value::integer(2)) == 0; }
bool is_divisible(Run& run, const Value& v, Arguments arguments) {
  return remainder(run, v, only(run, "divisibleby", std::move(arguments))) == 0;
}

template <bool Lower>
bool has_case(Run& run, const Value& v, Arguments) {
  return truth(find_text_method(Lower ? "islower" : "isupper")(run, soft_text(run, v), Arguments()));
}

bool is_equal(Run& run, const Value& v, Arguments a) { return equal(run, v, only(run, "eq", std::move(a))); }
bool is_unequal(Run& run, const Value& v, Arguments a) {
  return !equal(run, v, only(run, "ne", std::move(a)));
}
template <Order Which>
bool is_ordered(Run& run, const Value& v, Arguments a) {
  return ordered(run, Which, v, only(run, "the comparison", std::move(a)));
}
bool is_in(Run& run, const Value& v, Arguments a) { return contains(run, only(run, "in", std::move(a)), v); }

bool is_same(Run& run, const Value& v, Arguments arguments) {
  const Value other = only(run, "sameas", std::move(arguments));
  if (v.kind() != other.kind()) return false;
  if (v.is(Kind::sequence) || v.is(Kind::mapping)) return v.identity() == other.identity();
  return same_key(v, other);
}

bool is_filter(Run&, const Value& v, Arguments) { return v.is_text() && find_filter(v.bytes()) != nullptr; }
bool is_test(Run&, const Value& v, Arguments) { return v.is_text() && find_test(v.bytes()) != nullptr; }

struct TestEntry {
  std::string_view name;
  TestFunction function;
};

constexpr TestEntry kTests[] = {
    {"!=", is_unequal},
    {"<", is_ordered<Order::less>},
    {"<=", is_ordered<Order::less_equal>},
    {"==", is_equal},
    {">", is_ordered<Order::greater>},
    {">=", is_ordered<Order::greater_equal>},
    {"boolean", is_boolean},
    {"callable", is_callable},
    {"defined", is_defined},
    {"divisibleby", is_divisible},
    {"eq", is_equal},
    {"equalto", is_equal},
    {"escaped", is_escaped},
    {"even", is_even},
    {"false", is_false},
    {"filter", is_filter},
    {"float", is_float},
    {"ge", is_ordered<Order::greater_equal>},
    {"greaterthan", is_ordered<Order::greater>},
    {"gt", is_ordered<Order::greater>},
    {"in", is_in},
    {"integer", is_integer},
    {"iterable", is_iterable},
    {"le", is_ordered<Order::less_equal>},
    {"lessthan", is_ordered<Order::less>},
    {"lower", has_case<true>},
    {"lt", is_ordered<Order::less>},
    {"mapping", is_mapping},
    {"ne", is_unequal},
    {"none", is_none},
    {"number", is_number},
    {"odd", is_odd},
    {"sameas", is_same},
    {"sequence", is_sequence},
    {"string", is_string},
    {"test", is_test},
    {"true", is_true},
    {"undefined", is_undefined},
    {"upper", has_case<false>},
};

}  // namespace

TestFunction find_test(std::string_view name) {
  for (const TestEntry& entry : kTests) {
    if (entry.name == name) return entry.function;
  }
  return nullptr;
}

}  // namespace trl::text::jinja
