// Filters and tests by name.
#pragma once
#include "text/chat_template/run.h"

namespace trl::text::jinja {

using FilterFunction = Value (*)(Run&, const Value&, Arguments);
using TestFunction = bool (*)(Run&, const Value&, Arguments);

FilterFunction find_filter(std::string_view name);  // nullptr: no filter has this name
std::string no_filter(std::string_view name);       // the error if it gives nullptr
bool is_refused_filter(std::string_view name);      // Jinja has it, and a template that names it is refused
TestFunction find_test(std::string_view name);

struct FilterEntry {
  std::string_view name;
  FilterFunction function;
};

FilterFunction find_text_filter(std::string_view name);      // filters_text.cc
FilterFunction find_sequence_filter(std::string_view name);  // filters_sequence.cc

template <size_t N>
FilterFunction lookup_filter(const FilterEntry (&table)[N], std::string_view name) {
  for (const FilterEntry& entry : table) {
    if (entry.name == name) return entry.function;
  }
  return nullptr;
}

Value soft_text(Run& run, const Value& value);  // a string as it is, anything else by str()

}  // namespace trl::text::jinja
