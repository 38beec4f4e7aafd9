// str.format and str.format_map. Fields reach values as template expressions do: no attribute that a template
// could not read.
#include <algorithm>
#include <vector>

#include "base/text/utf8.h"
#include "text/chat_template/python.h"
#include "text/chat_template/unicode.h"

namespace trl::text::jinja {

namespace {

// One replacement field of a format string: {name!conversion:spec}.
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

// at: the position after the opening brace; on return, the one after the closing brace.
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

// Reads a name that consists of decimal digits of any script; nullopt: not a number.
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

// Implements Python's format(value, spec) for a number.
void write_number(Writer& out, Run& run, const FormatSpec& spec, const Value& value) {
  if (spec.type == 'c' && value.is_integral()) {
    if (spec.sign != 0 || spec.alternate || spec.precision || spec.group != 0)
      run.fail("no sign, '#', grouping or precision with the format 'c'");
    write_character(out, run, spec, value);
    return;
  }
  constexpr std::string_view kReal = "eEfFgG%";
  const bool whole =
      !value.is(Kind::real) && (spec.type == 0 || kReal.find(spec.type) == std::string_view::npos);
  if (whole && spec.precision) run.fail("Precision not allowed in integer format specifier");
  write_padded(out, spec, format_number(run, spec, value), true);
}

void write_text(Writer& out, Run& run, FormatSpec spec, std::string_view written, const Value& value) {
  if (spec.group != 0) run.fail("cannot specify '{}' with 's'", spec.group);
  if (spec.align == '=' && spec.fill == "0") spec.align = '<';
  if ((spec.type != 0 && spec.type != 's') || spec.align == '=')
    run.fail("format '{}' is not for {}", written, type_name(value));
  spec.type = 's';
  const Value converted = converted_text(run, spec, value);
  write_padded(out, spec, converted.bytes(), false);
}

void write_formatted(Writer& out, Run& run, const std::string& written, const Value& value) {
  const bool number = value.is_number() || value.is_large();
  if (!written.empty() && !number && !value.is_text())
    run.fail("unsupported format string passed to {}.__format__", type_name(value));
  const FormatSpec spec = parse_format_spec(run, written);
  if (number && !(value.is(Kind::boolean) && written.empty()))
    write_number(out, run, spec, value);
  else
    write_text(out, run, spec, written, value);
}

class BraceFormatter {
 public:
  // mapping: the values of names, instead of values.named; may be nullptr
  BraceFormatter(Run& run, const Arguments& values, const Value* mapping, bool markup)
      : run_(run), values_(values), mapping_(mapping), markup_(markup) {}

  void write(Writer& out, std::string_view text, int depth) {
    if (depth > 2) run_.fail("a format specification nested too deeply");
    for (size_t at = 0; at < text.size();) {
      const size_t brace = std::min(text.find_first_of("{}", at), text.size());
      out.append(text.substr(at, brace - at));
      if (brace == text.size()) return;
      at = brace + 1;
      if (at < text.size() && text[at] == text[brace]) {
        out.append(text.substr(at++, 1));
        continue;
      }
      if (text[brace] == '}') run_.fail("single '}}' encountered in format string");
      write_field(out, parse_replacement_field(run_, text, at), depth);
    }
  }

 private:
  void write_field(Writer& out, const ReplacementField& field, int depth) {
    Value value = first(field);
    for (const FieldPart& part : field.parts) {
      const auto number = part.attribute ? std::nullopt : field_number(run_, part.name);
      value = part.attribute ? attribute_of(run_, value, part.name)
              : number       ? item_of(run_, value, Value::integer(*number))
                             : item_of(run_, value, Value::text(std::string(part.name)));
    }
    if (field.conversion != 0) {
      FormatSpec conversion;
      conversion.type = field.conversion;
      value = converted_text(run_, conversion, value);
    }
    Writer spec(run_);
    write(spec, field.spec, depth + 1);
    if (!markup_) return write_formatted(out, run_, spec.text(), value);
    if (value.is_text() && value.text().markup) {
      if (spec.size() > 0) run_.fail("a format specification for markup, which takes none");
      return out.append(value.bytes());
    }
    Writer piece(run_);
    write_formatted(piece, run_, spec.text(), value);
    const Value written = piece.value();
    write_escaped(out, written.bytes());
  }

  Value first(const ReplacementField& field) {
    const auto number = field.first.empty() ? next() : field_number(run_, field.first);
    if (!field.first.empty() && number && field.parts.empty()) {
      if (automatic_ > 0) switched();
      numbered_ = true;
    }
    if (number) {
      if (static_cast<size_t>(*number) >= values_.positional.size())
        run_.fail("replacement index {} out of range for positional args tuple", *number);
      return values_.positional[static_cast<size_t>(*number)];
    }
    if (mapping_ != nullptr) {
      if (!mapping_->is(Kind::mapping)) run_.fail("format_map() needs a dict, not {}", type_name(*mapping_));
      if (const Value* found = mapping_->mapping().find(field.first)) return *found;
    }
    for (const auto& [key, value] : values_.named)
      if (key.bytes() == field.first) return value;
    run_.fail("the format string names '{}', which is not given", field.first);
  }

  std::optional<int64_t> next() {
    if (numbered_) switched();
    return automatic_++;
  }

  [[noreturn]] void switched() {
    run_.fail("cannot switch from manual field specification to automatic field numbering");
  }

  Run& run_;
  const Arguments& values_;
  const Value* mapping_;
  bool markup_;
  bool numbered_ = false;
  int64_t automatic_ = 0;
};

Value formatted(Run& run, const Value& format, const Arguments& values, const Value* mapping) {
  Writer out(run);
  BraceFormatter(run, values, mapping, format.text().markup).write(out, format.bytes(), 0);
  return out.value(format.text().markup);
}

}  // namespace

Value format_braces(Run& run, const Value& format, Arguments values) {
  return formatted(run, format, values, nullptr);
}

Value format_braces_of(Run& run, const Value& format, const Value& mapping) {
  return formatted(run, format, {}, &mapping);
}

}  // namespace trl::text::jinja
