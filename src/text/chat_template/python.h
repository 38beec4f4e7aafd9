// Python's operations on values: truth, str and repr, order, arithmetic, items, attributes. Everything that
// Jinja leaves to Python is here.
#pragma once
#include <optional>

#include "text/chat_template/run.h"

namespace trl::text::jinja {

std::string type_name(const Value& value);
bool truth(const Value& value);
std::string str_of(Run& run, const Value& value);   // str(value)
std::string repr_of(Run& run, const Value& value);  // repr(value)
// The same as values, which remember what is given of them; ascii(value).
Value str_value(Run& run, const Value& value);
Value repr_value(Run& run, const Value& value);
Value ascii_value(Run& run, const Value& value);
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

// Python's two ways to format strings: "%s" % values and "{}".format(values).
Value format_percent(Run& run, const Value& format, const Value& values);
Value format_braces(Run& run, const Value& format, Arguments values);
Value format_braces_of(Run& run, const Value& format, const Value& mapping);

// One placeholder of a format string: its flags and the text that they give for a number or a string.
struct FormatSpec {
  std::string fill = " ";
  char align = 0;  // '<', '>', '^', '=' or 0: the type's own
  char sign = 0;   // '-', '+', ' ' or 0: as '-'
  bool alternate = false;
  int64_t width = 0;
  char group = 0;  // ',' or '_'
  std::optional<int> precision;
  char type = 0;
};

FormatSpec parse_format_spec(Run& run, std::string_view text);
std::string format_number(Run& run, const FormatSpec& spec, const Value& value);  // sign, digits and grouping
// Pads to the width; numbers: the sign stays left of '=' padding.
void write_padded(Writer& out, const FormatSpec& spec, std::string_view text, bool number);
// Returns str, repr or ascii of a value, by the type s, r or a, cut to the precision.
Value converted_text(Run& run, const FormatSpec& spec, const Value& value);
void write_character(Writer& out, Run& run, const FormatSpec& spec, const Value& value);  // type c
int parse_count(Run& run, std::string_view text, size_t& at);  // decimal digits; 0 without any

// HTML escaping, as markupsafe does it.
void write_escaped(Writer& out, std::string_view text);

}  // namespace trl::text::jinja
