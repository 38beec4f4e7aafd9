// Python's operations on values: truth, str and repr, order, arithmetic, items, attributes. Everything that
// Jinja leaves to Python is here.
#pragma once
#include <optional>

#include "text/chat_template/run.h"

namespace trl::text::jinja {

std::string type_name(const Value& value);
bool truth(const Value& value);
std::string str_of(Run& run, const Value& value);    // str(value)
std::string repr_of(Run& run, const Value& value);   // repr(value)
std::string ascii_of(Run& run, const Value& value);  // ascii(value)
void write_str(Writer& out, Run& run, const Value& value);
std::string real_repr(double value);                       // Python's repr of a float
std::optional<double> parse_real(std::string_view ascii);  // float(ascii): infinite if it is too large

bool equal(Run& run, const Value& a, const Value& b);
enum class Order : uint8_t { less, less_equal, greater, greater_equal };
// Returns a < b, a <= b ...; fails for types without an order.
bool ordered(Run& run, Order order, const Value& a, const Value& b);
inline bool less(Run& run, const Value& a, const Value& b) { return ordered(run, Order::less, a, b); }
bool contains(Run& run, const Value& container, const Value& item);

size_t length(Run& run, const Value& value);
bool iterable(const Value& value);
Values items_of(Run& run, const Value& value);  // the items of a for loop; takes an iterator's rest

enum class Operator : uint8_t { add, subtract, multiply, divide, floor_divide, modulo, power };
Value arithmetic(Run& run, Operator op, const Value& a, const Value& b);
Value negate(Run& run, const Value& value);
Value plus(Run& run, const Value& value);

Value attribute_of(Run& run, const Value& value, std::string_view name);      // value.name
Value own_attribute_of(Run& run, const Value& value, std::string_view name);  // never an item of that name
Value item_of(Run& run, const Value& value, const Value& key);                // value[key]
// Says why a value has no such slice; empty: it has one.
std::string slice_refusal(const Value& value, const Value& start, const Value& stop, const Value& step);
Value slice_of(Run& run, const Value& value, const Value& start, const Value& stop, const Value& step);
Value call(Run& run, const Value& callee, Arguments arguments);

Value real_to_integer(Run& run, double value);  // int(value)

}  // namespace trl::text::jinja
