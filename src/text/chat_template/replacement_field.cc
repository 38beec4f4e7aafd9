#include "text/chat_template/replacement_field.h"

#include <algorithm>

#include "base/text/utf8.h"
#include "text/chat_template/unicode.h"

namespace trl::text::jinja {

namespace {

// Returns the end of the name: at "!", ":" or "}". A key in brackets may contain each of them.
size_t end_of_name(Run& run, std::string_view text, size_t at) {
  for (; at < text.size(); ++at) {
    if (text[at] == '{') run.fail("unexpected '{{' in field name");
    if (text[at] == '}' || text[at] == ':' || text[at] == '!') return at;
    if (text[at] == '[') at = std::min(text.find(']', at), text.size() - 1);
  }
  run.fail("expected '}}' before end of string");
}

size_t end_of_spec(Run& run, std::string_view text, size_t at) {
  for (int open = 1; at < text.size(); ++at) {
    if (text[at] == '{') ++open;
    if (text[at] == '}' && --open == 0) return at;
  }
  run.fail("unmatched '{{' in format spec");
}

char take_conversion(Run& run, std::string_view text, size_t& at) {
  if (at >= text.size()) run.fail("end of string while looking for conversion specifier");
  const size_t begin = at;
  base::next_code_point(text, at);
  const std::string_view name = text.substr(begin, at - begin);
  if (name == "}") run.fail("a conversion is missing after '!'");
  if (at < text.size() && text[at] != '}' && text[at] != ':')
    run.fail("expected ':' after conversion specifier");
  if (name != "s" && name != "r" && name != "a")
    run.fail("unknown conversion specifier '{}'; s, r and a are known", name);
  return name[0];
}

void split_name(Run& run, std::string_view name, ReplacementField& field) {
  size_t at = std::min(name.find_first_of(".["), name.size());
  field.first = name.substr(0, at);
  while (at < name.size()) {
    const bool attribute = name[at] == '.';
    if (!attribute && name[at] != '[') run.fail("only '.' or '[' may follow ']' in format field specifier");
    const size_t stop =
        attribute ? std::min(name.find_first_of(".[", at + 1), name.size()) : name.find(']', at);
    if (stop == std::string_view::npos) run.fail("missing ']' in format string");
    field.parts.push_back({attribute, name.substr(at + 1, stop - at - 1)});
    if (field.parts.back().name.empty()) run.fail("empty attribute in format string");
    at = attribute ? stop : stop + 1;
  }
}

}  // namespace

ReplacementField parse_replacement_field(Run& run, std::string_view text, size_t& at) {
  if (at >= text.size()) run.fail("single '{{' encountered in format string");
  ReplacementField field;
  const size_t end = end_of_name(run, text, at);
  split_name(run, text.substr(at, end - at), field);
  at = end + 1;
  if (text[end] == '!') field.conversion = take_conversion(run, text, at);
  if (text[end] == '}' || (text[end] == '!' && at < text.size() && text[at++] == '}')) return field;
  const size_t close = end_of_spec(run, text, at);
  field.spec = text.substr(at, close - at);
  at = close + 1;
  return field;
}

std::optional<int64_t> field_number(Run& run, std::string_view name) {
  int64_t number = 0;
  for (size_t at = 0; at < name.size();) {
    const char32_t c = base::next_code_point(name, at);
    if (!is_decimal(c)) return std::nullopt;
    if (__builtin_mul_overflow(number, 10, &number) ||
        __builtin_add_overflow(number, decimal_value(c), &number))
      run.fail("too many decimal digits in format string");
  }
  return name.empty() ? std::nullopt : std::optional(number);
}

}  // namespace trl::text::jinja
