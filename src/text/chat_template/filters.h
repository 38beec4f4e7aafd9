// Filters, tests and methods by name, and functions that they share.
#pragma once
#include <algorithm>
#include <array>
#include <optional>
#include <variant>

#include "text/chat_template/run.h"

namespace trl::text::jinja {

// A filter, or a method that does not change its object.
struct Callable {
  using Bound = Value (*)(Run&, const Value& self, const Parameters&);
  using Variadic = Value (*)(Run&, const Value& self, Arguments);
  std::string_view name;
  std::variant<Bound, Variadic> function;
  std::array<std::string_view, 4> parameters = {};
  size_t required = 0;          // the first parameters
  std::string_view shown = {};  // instead of name in messages
};
Value invoke(Run& run, const Callable& callable, const Value& self, Arguments arguments);

using TestFunction = bool (*)(Run&, const Value&, Arguments);

const Callable* find_filter(std::string_view name);  // nullptr: no filter has this name
std::string no_filter(std::string_view name);        // the error if it gives nullptr
bool is_refused_filter(std::string_view name);       // Jinja has it, and a template that names it is refused
TestFunction find_test(std::string_view name);

const Callable* find_sequence_filter(std::string_view name);  // filters_sequence.cc

// Returns the row of a table that has this name, or nullptr.
template <typename Row, size_t N>
const Row* find_named(const Row (&table)[N], std::string_view name) {
  const Row* found = std::find_if(table, table + N, [&](const Row& row) { return row.name == name; });
  return found == table + N ? nullptr : found;
}

Value soft_text(Run& run, const Value& value);  // a string as it is, anything else by str()

// nullptr: the type has no such method. Methods that would change a value are in is_mutator().
const Callable* find_method(const Value& value, std::string_view name);
const Callable* find_text_method(std::string_view name);  // text_methods.cc
bool is_mutator(const Value& value, std::string_view name);
bool is_refused_text_method(std::string_view name);  // str has it, and a template that calls it is refused
// Returns another attribute of Python's type, such as real of a number; nullopt: it has none of this name.
// Fails for attributes that exist only in Python.
std::optional<Value> field_of(Run& run, const Value& value, std::string_view name);

Value dict_from_keys(Run& run, Arguments arguments);  // dict.fromkeys

// Returns the offset of needle in text at or after from, or npos; linear time, charged to the run.
size_t find_text(Run& run, std::string_view text, std::string_view needle, size_t from = 0);
size_t find_last_text(Run& run, std::string_view text, std::string_view needle);
Value replace_text(Run& run, const Value& text, std::string_view from, std::string_view to, int64_t count);
Value join_text(Run& run, std::string_view separator, const Values& parts, bool strict);
// Returns text.strip(chars); chars none or not given: white space.
Value strip_text(Run& run, const Value& text, const Value& chars, int side);

// The filter tojson: json.dumps as Hugging Face calls it.
Value to_json(Run& run, const Value& value, const Parameters& p);

}  // namespace trl::text::jinja
