// Methods of strings, lists, tuples, dicts and numbers that do not change their object.
#pragma once
#include <optional>

#include "text/chat_template/run.h"

namespace trl::text::jinja {

using Method = Value (*)(Run&, const Value& self, Arguments);

// nullptr: the type has no such method. Methods that would change a value are in is_mutator().
Method find_method(const Value& value, std::string_view name);
Method find_text_method(std::string_view name);  // text_methods.cc
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

}  // namespace trl::text::jinja
