// "%" and str.format. Fields reach values as template expressions do: no attribute that a template could not
// read.
#include "text/chat_template/format.h"

#include <algorithm>

#include "base/number.h"
#include "base/utf8.h"
#include "text/chat_template/format_spec.h"
#include "text/chat_template/markup.h"
#include "text/chat_template/python.h"

namespace trl::text::jinja {

namespace {

// The values of a % format, taken in order or by name.
class PercentValues {
 public:
  PercentValues(Run& run, const Value& values) : run_(run), values_(values) {}

  const Value& next() {
    if (values_.is_sequence(SequenceType::tuple)) {
      const Values& items = values_.sequence().items;
      if (taken_ >= items.size()) run_.fail("not enough arguments for format string");
      return items[taken_++];
    }
    if (taken_++ > 0) run_.fail("not enough arguments for format string");
    return values_;
  }
  const Value& named(std::string_view name) {
    if (!values_.is(Kind::mapping)) run_.fail("format requires a mapping");
    const Value* found = values_.mapping().find(name);
    if (!found) run_.fail("the format string names '{}', which is not in the mapping", name);
    return *found;
  }
  void finish() const {
    const bool all = values_.is_sequence(SequenceType::tuple) ? taken_ == values_.sequence().items.size()
                                                              : taken_ > 0 || values_.is(Kind::mapping);
    if (!all) run_.fail("not all arguments converted during string formatting");
  }

 private:
  Run& run_;
  const Value& values_;
  size_t taken_ = 0;
};

std::string percent_text(Run& run, const FormatSpec& spec, const Value& value) {
  std::string text = spec.type == 's'   ? str_of(run, value)
                     : spec.type == 'a' ? ascii_of(run, value)
                                        : repr_of(run, value);
  if (!spec.precision) return text;
  size_t at = 0;
  for (int i = 0; i < *spec.precision && at < text.size(); ++i) base::next_code_point(text, at);
  return text.substr(0, at);
}

void percent_number(Writer& out, Run& run, FormatSpec spec, const Value& value) {
  if (value.is_undefined()) run.fail_undefined(value);
  if (!value.is_number() && !value.is_large())
    run.fail("%{} format: a real number is required, not {}", spec.type, type_name(value));
  constexpr std::string_view kWhole = "diu";
  if (kWhole.find(spec.type) != std::string_view::npos) spec.type = 'd';
  const bool whole = spec.type == 'd' || spec.type == 'x' || spec.type == 'X' || spec.type == 'o';
  if (whole && spec.type != 'd' && value.is(Kind::real))
    run.fail("%{} format: an integer is required, not float", spec.type);
  const Value number = whole && value.is(Kind::real) ? real_to_integer(run, value.real()) : value;
  std::string text = format_number(run, spec, number);
  if (whole && spec.precision) {  // at least this many digits
    const size_t begin = text.find_first_of("0123456789abcdefABCDEF");
    const auto digits = static_cast<int>(text.size() - begin);
    if (digits < *spec.precision) text.insert(begin, static_cast<size_t>(*spec.precision - digits), '0');
  }
  write_padded(out, spec, text, true);
}

void write_character(Writer& out, Run& run, const FormatSpec& spec, const Value& value) {
  std::string text;
  if (value.is_integral() && value.integer() >= 0 && value.integer() < 0x110000 &&
      (value.integer() < 0xD800 || value.integer() > 0xDFFF)) {
    base::append_utf8(text, static_cast<char32_t>(value.integer()));
  } else if (value.is_text() && value.text().length == 1) {
    text = value.bytes();
  } else {
    run.fail("%c requires int or char, not {}", type_name(value));
  }
  write_padded(out, spec, text, true);
}

int percent_count(Run& run, std::string_view text, size_t& at, PercentValues& values) {
  if (at < text.size() && text[at] == '*') {
    ++at;
    const Value& count = values.next();
    if (!count.is_integral()) run.fail("* wants int");
    return static_cast<int>(std::clamp<int64_t>(count.integer(), 0, 1'000'000));
  }
  return parse_count(run, text, at);
}

// One placeholder; at is just after its '%'.
void write_placeholder(Writer& out, Run& run, std::string_view text, size_t& at, PercentValues& values) {
  FormatSpec spec;
  spec.align = '>';
  const Value* named = nullptr;
  if (at < text.size() && text[at] == '(') {
    const size_t close = text.find(')', at);
    if (close == std::string_view::npos) run.fail("incomplete format key");
    named = &values.named(text.substr(at + 1, close - at - 1));
    at = close + 1;
  }
  for (constexpr std::string_view kFlags = "-+ #0";
       at < text.size() && kFlags.find(text[at]) != std::string_view::npos; ++at) {
    if (text[at] == '-') spec.align = '<';
    if (text[at] == '+' || (text[at] == ' ' && spec.sign != '+')) spec.sign = text[at];
    if (text[at] == '#') spec.alternate = true;
    if (text[at] == '0') spec.fill = "0";
  }
  spec.width = percent_count(run, text, at, values);
  if (at < text.size() && text[at] == '.') {
    ++at;
    spec.precision = percent_count(run, text, at, values);
  }
  while (at < text.size() && (text[at] == 'h' || text[at] == 'l' || text[at] == 'L')) ++at;
  if (at >= text.size()) run.fail("incomplete format");
  spec.type = text[at++];
  if (spec.type == '%') {
    out.append("%");
    return;
  }
  const Value& value = named ? *named : values.next();
  constexpr std::string_view kText = "sra";
  constexpr std::string_view kNumber = "diuxXofFeEgG";
  if (kText.find(spec.type) != std::string_view::npos) {
    spec.fill = " ";
    write_padded(out, spec, percent_text(run, spec, value), false);
  } else if (spec.type == 'c') {
    spec.fill = " ";
    write_character(out, run, spec, value);
  } else if (kNumber.find(spec.type) != std::string_view::npos) {
    if (spec.fill == "0") spec.align = spec.align == '<' ? '<' : '=';
    if (spec.align == '<') spec.fill = " ";
    percent_number(out, run, spec, value);
  } else {
    run.fail("unsupported format character '{}'", spec.type);
  }
}

}  // namespace

Value format_percent(Run& run, const Value& format, const Value& given) {
  const std::string_view text = format.bytes();
  PercentValues values(run, given);
  Writer out(run);
  for (size_t at = 0; at < text.size();) {
    const size_t percent = std::min(text.find('%', at), text.size());
    out.append(text.substr(at, percent - at));
    at = percent;
    if (at == text.size()) break;
    ++at;
    if (!format.text().markup) {
      write_placeholder(out, run, text, at, values);
      continue;
    }
    Writer piece(run);
    write_placeholder(piece, run, text, at, values);
    write_escaped(out, piece.text());
  }
  values.finish();
  return out.value(format.text().markup);
}

namespace {

class BraceFormatter {
 public:
  // mapping: what names mean, instead of values.named; may be nullptr
  BraceFormatter(Run& run, const Arguments& values, const Value* mapping)
      : run_(run), values_(values), mapping_(mapping) {}

  void write(Writer& out, std::string_view text, int depth) {
    if (depth > 2) run_.fail("a format specification nested too deeply");
    for (size_t at = 0; at < text.size();) {
      const size_t brace = std::min(text.find_first_of("{}", at), text.size());
      out.append(text.substr(at, brace - at));
      if (brace == text.size()) return;
      if (brace + 1 < text.size() && text[brace + 1] == text[brace]) {
        out.append(text.substr(brace, 1));
        at = brace + 2;
        continue;
      }
      if (text[brace] == '}') run_.fail("single '}}' encountered in format string");
      const size_t close = closing(text, brace);
      write_field(out, text.substr(brace + 1, close - brace - 1), depth);
      at = close + 1;
    }
  }

 private:
  size_t closing(std::string_view text, size_t open) {
    int level = 0;
    for (size_t i = open; i < text.size(); ++i) {
      if (text[i] == '{') ++level;
      if (text[i] == '}' && --level == 0) return i;
    }
    run_.fail("expected '}}' before end of string");
  }

  void write_field(Writer& out, std::string_view field, int depth) {
    const size_t name_end = std::min(field.find_first_of("!:"), field.size());
    const Value value = lookup(field.substr(0, name_end));
    std::string_view rest = field.substr(name_end);
    char conversion = 0;
    if (rest.starts_with('!')) {
      if (rest.size() < 2) run_.fail("a conversion is missing after '!'");
      conversion = rest[1];
      rest.remove_prefix(2);
    }
    if (rest.starts_with(':')) rest.remove_prefix(1);
    Writer spec_text(run_);
    write(spec_text, rest, depth + 1);
    const FormatSpec spec = parse_format_spec(run_, spec_text.text());
    constexpr std::string_view kConversions = "sra";
    if (conversion != 0 && kConversions.find(conversion) == std::string_view::npos)
      run_.fail("unknown conversion specifier '{}'", conversion);
    if (conversion == 0 && spec.type == 'c' && value.is_integral()) {
      if (spec.sign != 0 || spec.alternate || spec.precision || spec.group != 0)
        run_.fail("no sign, '#', grouping or precision with the format 'c'");
      write_character(out, run_, spec, value);
      return;
    }
    const bool number = value.is_number() || value.is_large();
    constexpr std::string_view kReal = "eEfFgG%";
    const bool whole =
        !value.is(Kind::real) && (spec.type == 0 || kReal.find(spec.type) == std::string_view::npos);
    if (conversion == 0 && number && whole && spec.precision)
      run_.fail("Precision not allowed in integer format specifier");
    if (conversion == 0 && number && !(value.is(Kind::boolean) && spec_text.size() == 0)) {
      write_padded(out, spec, format_number(run_, spec, value), true);
      return;
    }
    if (conversion == 0 && !value.is_text() && !number && spec_text.size() > 0)
      run_.fail("unsupported format string passed to {}.__format__", type_name(value));
    if (spec.group != 0) run_.fail("cannot specify '{}' with 's'", spec.group);
    FormatSpec text_spec = spec;
    if (spec.align == '=' && spec.fill == "0") text_spec.align = '<';
    if ((spec.type != 0 && spec.type != 's') || text_spec.align == '=')
      run_.fail("format '{}' is not for {}", spec_text.text(), type_name(value));
    text_spec.type = conversion == 0 ? 's' : conversion;
    write_padded(out, text_spec, percent_text(run_, text_spec, value), false);
  }

  Value lookup(std::string_view field) {
    const size_t end = std::min(field.find_first_of(".["), field.size());
    Value value = first(field.substr(0, end));
    for (size_t at = end; at < field.size();) {
      if (field[at] == '.') {
        const size_t stop = std::min(field.find_first_of(".[", at + 1), field.size());
        value = attribute_of(run_, value, field.substr(at + 1, stop - at - 1));
        at = stop;
        continue;
      }
      const size_t close = field.find(']', at);
      if (field[at] != '[' || close == std::string_view::npos) run_.fail("missing ']' in format string");
      const std::string_view key = field.substr(at + 1, close - at - 1);
      const auto number = base::parse_int64(key);
      value = item_of(run_, value, number ? Value::integer(*number) : Value::text(std::string(key)));
      at = close + 1;
    }
    return value;
  }

  Value first(std::string_view name) {
    const auto number = name.empty() ? std::optional<int64_t>(automatic_++) : base::parse_int64(name);
    if (number) {
      if (*number < 0 || static_cast<size_t>(*number) >= values_.positional.size())
        run_.fail("replacement index {} out of range for positional args tuple", *number);
      return values_.positional[static_cast<size_t>(*number)];
    }
    if (mapping_ != nullptr) {
      if (!mapping_->is(Kind::mapping)) run_.fail("format_map() needs a dict, not {}", type_name(*mapping_));
      if (const Value* found = mapping_->mapping().find(name)) return *found;
    }
    for (const auto& [key, value] : values_.named) {
      if (key == name) return value;
    }
    run_.fail("the format string names '{}', which is not given", name);
  }

  Run& run_;
  const Arguments& values_;
  const Value* mapping_;
  int64_t automatic_ = 0;
};

}  // namespace

Value format_braces(Run& run, const Value& format, Arguments values) {
  Writer out(run);
  BraceFormatter(run, values, nullptr).write(out, format.bytes(), 0);
  return out.value(format.text().markup);
}

Value format_braces_of(Run& run, const Value& format, const Value& mapping) {
  Writer out(run);
  BraceFormatter(run, {}, &mapping).write(out, format.bytes(), 0);
  return out.value(format.text().markup);
}

}  // namespace trl::text::jinja
