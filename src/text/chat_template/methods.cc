// Methods of dict, list, tuple and the numbers; attributes of values that are not methods: fields of numbers
// and ranges, and those that only Python has. Jinja's tests: the names after `is`.
#include <algorithm>
#include <bit>
#include <cmath>
#include <initializer_list>

#include "text/chat_template/filters.h"
#include "text/chat_template/python.h"

namespace trl::text::jinja {

namespace {

Value keys(Run& run, const Value& self, const Parameters&) {
  return run.sequence(SequenceType::keys, items_of(run, self));
}

Value values(Run& run, const Value& self, const Parameters&) {
  Values items;
  for (const auto& entry : self.mapping().entries) items.push_back(entry.second);
  return run.sequence(SequenceType::values, std::move(items));
}

Value items(Run& run, const Value& self, const Parameters&) {
  Values pairs;
  for (const auto& [key, value] : self.mapping().entries) pairs.push_back(run.tuple({key, value}));
  return run.sequence(SequenceType::items, std::move(pairs));
}

Value get(Run& run, const Value& self, const Parameters& p) {
  if (!hashable(p[0])) run.fail("unhashable type: '{}'", type_name(p[0]));
  const Value* found = self.mapping().find(p[0]);
  return found ? *found : p.value(1, Value::none());
}

// Values never change.
Value copy(Run&, const Value& self, const Parameters&) { return self; }

Value fromkeys(Run& run, const Value&, Arguments arguments) {
  return dict_from_keys(run, std::move(arguments));
}

Value index(Run& run, const Value& self, const Parameters& p) {
  const Value part = slice_of(run, self, p.value(1, Value::none()), p.value(2, Value::none()), Value::none());
  const Values& parts = part.sequence().items;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!equal(run, parts[i], p[0])) continue;
    const auto count = static_cast<int64_t>(self.sequence().items.size());
    const int64_t start = p.none(1) ? 0 : p.integer(1, 0);
    return Value::integer(static_cast<int64_t>(i) +
                          (start < 0 ? std::max<int64_t>(0, start + count) : start));
  }
  run.fail("{} is not in the {}", repr_of(run, p[0]), type_name(self));
}

Value count(Run& run, const Value& self, const Parameters& p) {
  const Values& parts = self.sequence().items;
  return Value::integer(std::ranges::count_if(parts, [&](const Value& v) { return equal(run, v, p[0]); }));
}

Value is_whole(Run&, const Value& self, const Parameters&) {
  return Value::boolean(std::trunc(self.real()) == self.real());
}

Value bit_length(Run&, const Value& self, const Parameters&) {
  const int64_t value = self.integer();
  const uint64_t magnitude =
      value < 0 ? uint64_t{0} - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  return Value::integer(static_cast<int64_t>(std::bit_width(magnitude)));
}

constexpr Callable kMappingMethods[] = {
    {"copy", copy},   {"fromkeys", fromkeys}, {"get", get, {"key", "default"}, 1},
    {"items", items}, {"keys", keys},         {"values", values},
};
constexpr Callable kIndex = {"index", index, {"value", "start", "stop"}, 1};
constexpr Callable kCount = {"count", count, {"value"}, 1};
constexpr Callable kSequenceMethods[] = {kIndex, kCount};
constexpr Callable kListMethods[] = {kIndex, kCount, {"copy", copy}};
constexpr Callable kRealMethods[] = {{"is_integer", is_whole}};
constexpr Callable kIntegerMethods[] = {{"bit_length", bit_length}};

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

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
  return truth(invoke(run, *find_text_method(Lower ? "islower" : "isupper"), soft_text(run, v), {}));
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

struct TestRow {
  std::string_view name;
  TestFunction function;
};
constexpr TestRow kTests[] = {
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

std::optional<Value> number_field(const Value& number, std::string_view name) {
  const bool real = number.is(Kind::real);
  const Value value = number.is(Kind::boolean) ? Value::integer(number.integer()) : number;
  if (name == "real" || (name == "numerator" && !real)) return value;
  if (name == "imag") return real ? Value::real(0) : Value::integer(0);
  if (name == "denominator" && !real) return Value::integer(1);
  return std::nullopt;
}

std::optional<Value> range_field(const Range& range, std::string_view name) {
  if (name == "start") return Value::integer(range.start);
  if (name == "stop") return Value::integer(range.stop);
  if (name == "step") return Value::integer(range.step);
  return std::nullopt;
}

// Returns whether Python 3.10 has the attribute although find_method() and is_mutator() lack it.
bool in_python_alone(const Value& value, std::string_view name) {
  if (value.is_integral() || value.is_large())
    return is_one_of(name,
                     {"as_integer_ratio", "bit_count", "bit_length", "conjugate", "from_bytes", "to_bytes"});
  if (value.is(Kind::real)) return is_one_of(name, {"as_integer_ratio", "conjugate", "fromhex", "hex"});
  if (value.is_text())
    return is_refused_text_method(name) ||
           (value.text().markup && is_one_of(name, {"escape", "striptags", "unescape"}));
  if (value.is_sequence(SequenceType::iterator)) return is_one_of(name, {"close", "send", "throw"});
  const bool keys = value.is_sequence(SequenceType::keys) || value.is_sequence(SequenceType::items);
  return (keys && name == "isdisjoint") ||
         ((keys || value.is_sequence(SequenceType::values)) && name == "mapping");
}

}  // namespace

Value dict_from_keys(Run& run, Arguments arguments) {
  const Parameters p(run, "fromkeys", std::move(arguments), {"iterable", "value"}, 1);
  Mapping entries;
  for (const Value& key : items_of(run, p[0])) run.set(entries, key, p.value(1, Value::none()));
  return run.mapping(std::move(entries));
}

const Callable* find_method(const Value& value, std::string_view name) {
  if (value.is_text()) return find_text_method(name);
  if (value.is(Kind::mapping)) return find_named(kMappingMethods, name);
  if (value.is_sequence(SequenceType::list)) return find_named(kListMethods, name);
  if (value.is(Kind::sequence) && value.sequence().type <= SequenceType::range)
    return find_named(kSequenceMethods, name);
  if (value.is(Kind::real)) return find_named(kRealMethods, name);
  return value.is_integral() ? find_named(kIntegerMethods, name) : nullptr;
}

bool is_mutator(const Value& value, std::string_view name) {
  if (value.is(Kind::mapping)) return is_one_of(name, {"clear", "pop", "popitem", "setdefault", "update"});
  return value.is_sequence(SequenceType::list) &&
         is_one_of(name, {"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"});
}

std::optional<Value> field_of(Run& run, const Value& value, std::string_view name) {
  std::optional<Value> field;
  if (value.is_number() || value.is_large()) field = number_field(value, name);
  if (value.is_sequence(SequenceType::range)) field = range_field(value.sequence().range, name);
  if (!field && in_python_alone(value, name))
    run.fail("the attribute '{}' of a value of the type {} is not supported", name, type_name(value));
  return field;
}

TestFunction find_test(std::string_view name) {
  const TestRow* row = find_named(kTests, name);
  return row ? row->function : nullptr;
}

}  // namespace trl::text::jinja
