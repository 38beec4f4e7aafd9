// The operator % of str.
#include "text/chat_template/format.h"

#include <algorithm>

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

int percent_count(Run& run, std::string_view text, size_t& at, PercentValues& values) {
  if (at < text.size() && text[at] == '*') {
    ++at;
    const Value& count = values.next();
    if (!count.is_integral()) run.fail("* wants int");
    return static_cast<int>(std::clamp<int64_t>(count.integer(), 0, 1'000'000));
  }
  return parse_count(run, text, at);
}

// Writes one placeholder; at is the position after its '%'.
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
    write_padded(out, spec, converted_text(run, spec, value), false);
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

}  // namespace trl::text::jinja
