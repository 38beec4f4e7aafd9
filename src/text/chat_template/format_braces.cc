// str.format and str.format_map. Fields reach values as template expressions do: no attribute that a template
// could not read.
#include <algorithm>

#include "text/chat_template/format.h"
#include "text/chat_template/format_spec.h"
#include "text/chat_template/markup.h"
#include "text/chat_template/python.h"
#include "text/chat_template/replacement_field.h"

namespace trl::text::jinja {

namespace {

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
  write_padded(out, spec, converted_text(run, spec, value), false);
}

void write_formatted(Writer& out, Run& run, const std::string& written, const Value& value) {
  const bool number = value.is_number() || value.is_large();
  if (!written.empty() && !number && !value.is_text())
    run.fail("unsupported format string passed to {}.__format__", type_name(value));
  const FormatSpec spec = parse_format_spec(run, written);
  if (number && !(value.is(Kind::boolean) && written.empty())) {
    write_number(out, run, spec, value);
  } else {
    write_text(out, run, spec, written, value);
  }
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
      value = run_.text(converted_text(run_, conversion, value));
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
    write_escaped(out, piece.text());
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
    for (const auto& [key, value] : values_.named) {
      if (key == field.first) return value;
    }
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
