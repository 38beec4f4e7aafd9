// One replacement field of a format string, as Python's str.format divides it: {name!conversion:spec}.
#pragma once
#include <optional>
#include <vector>

#include "text/chat_template/run.h"

namespace trl::text::jinja {

struct FieldPart {
  bool attribute;  // .name, or else [key]
  std::string_view name;
};

struct ReplacementField {
  std::string_view first;  // a number, a name or nothing
  std::vector<FieldPart> parts;
  char conversion = 0;    // s, r or a; 0: none
  std::string_view spec;  // may contain fields
};

// at: the position after the opening brace; on return, the one after the closing brace.
ReplacementField parse_replacement_field(Run& run, std::string_view text, size_t& at);
// Reads a name that consists of decimal digits of any script; nullopt: not a number.
std::optional<int64_t> field_number(Run& run, std::string_view name);

}  // namespace trl::text::jinja
