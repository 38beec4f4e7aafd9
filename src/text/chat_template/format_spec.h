// One placeholder of a format string: its flags and the text that they give for a number or a string.
#pragma once
#include <optional>

#include "text/chat_template/run.h"

namespace trl::text::jinja {

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
std::string converted_text(Run& run, const FormatSpec& spec, const Value& value);
void write_character(Writer& out, Run& run, const FormatSpec& spec, const Value& value);  // type c
int parse_count(Run& run, std::string_view text, size_t& at);  // decimal digits; 0 without any

}  // namespace trl::text::jinja
