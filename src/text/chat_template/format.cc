// Format specifications, shared by % and str.format. Numbers never depend on the locale.
#include "text/chat_template/python.h"

#include <algorithm>
#include <cmath>

#include "base/text/utf8.h"

namespace trl::text::jinja {

namespace {

constexpr int kMaxCount = 1'000'000;
constexpr int kMaxPrecision = 1000;
constexpr std::string_view kOtherBases = "xXob";

bool is_one_of(char c, std::string_view letters) { return letters.find(c) != std::string_view::npos; }

std::string integer_digits(Run& run, char type, uint64_t magnitude, bool alternate) {
  if (type == 0 || is_one_of(type, "dn")) return fmt::format("{}", magnitude);
  if (!is_one_of(type, kOtherBases)) run.fail("unknown format code '{}' for an int", type);
  const std::string digits = fmt::format(fmt::runtime(std::string("{:") + type + "}"), magnitude);
  return alternate ? std::string("0") + type + digits : digits;
}

std::string real_digits(Run& run, const FormatSpec& spec, double magnitude) {
  if (spec.type == 0 && !spec.precision) return real_repr(magnitude);
  if (spec.type != 0 && !is_one_of(spec.type, "fFeEgGn%"))
    run.fail("unknown format code '{}' for a float", spec.type);
  if (spec.type == '%') return fmt::format("{:.{}f}%", magnitude * 100, spec.precision.value_or(6));
  const char type = spec.type == 0 || spec.type == 'n' ? 'g' : spec.type == 'F' ? 'f' : spec.type;
  const int precision = std::max(spec.precision.value_or(6), is_one_of(type, "gG") ? 1 : 0);
  std::string text = fmt::format(fmt::runtime(std::string("{:.{}") + type + "}"), magnitude, precision);
  if (spec.type == 0 && std::isfinite(magnitude) && text.find_first_of(".e") == std::string::npos)
    text += ".0";
  return text;
}

std::string grouped(const std::string& digits, char group, size_t size) {
  size_t end = digits.find_first_not_of(size == 3 ? "0123456789" : "0123456789abcdefABCDEF");
  if (end == std::string::npos) end = digits.size();
  std::string out;
  for (size_t i = 0; i < end; ++i) {
    if (i > 0 && (end - i) % size == 0) out += group;
    out += digits[i];
  }
  return out + digits.substr(end);
}

// The operator % of str.

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
  if (is_one_of(spec.type, "diu")) spec.type = 'd';
  const bool whole = is_one_of(spec.type, "dxXo");
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
  for (; at < text.size() && is_one_of(text[at], "-+ #0"); ++at) {
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
  while (at < text.size() && is_one_of(text[at], "hlL")) ++at;
  if (at >= text.size()) run.fail("incomplete format");
  spec.type = text[at++];
  if (spec.type == '%') {
    out.append("%");
    return;
  }
  const Value& value = named ? *named : values.next();
  if (is_one_of(spec.type, "diuxXofFeEgG")) {
    if (spec.fill == "0") spec.align = spec.align == '<' ? '<' : '=';
    if (spec.align == '<') spec.fill = " ";
    return percent_number(out, run, spec, value);
  }
  spec.fill = " ";
  if (spec.type == 'c') return write_character(out, run, spec, value);
  if (!is_one_of(spec.type, "sra")) run.fail("unsupported format character '{}'", spec.type);
  const Value converted = converted_text(run, spec, value);
  write_padded(out, spec, converted.bytes(), false);
}

}  // namespace

int parse_count(Run& run, std::string_view text, size_t& at) {
  int count = 0;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
    count = count * 10 + (text[at] - '0');
    if (count > kMaxCount) run.fail("a width or precision of more than {}", kMaxCount);
  }
  return count;
}

FormatSpec parse_format_spec(Run& run, std::string_view text) {
  FormatSpec spec;
  size_t at = 0;
  const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
  size_t after_fill = 0;
  if (!text.empty()) base::next_code_point(text, after_fill);
  if (after_fill < text.size() && is_align(text[after_fill])) {
    spec.fill = text.substr(0, after_fill);
    spec.align = text[after_fill];
    at = after_fill + 1;
  } else if (!text.empty() && is_align(text[0])) {
    spec.align = text[0];
    at = 1;
  }
  const auto peek = [&] { return at < text.size() ? text[at] : '\0'; };
  if (peek() == '+' || peek() == '-' || peek() == ' ') spec.sign = text[at++];
  if (peek() == '#') {
    spec.alternate = true;
    ++at;
  }
  if (peek() == '0') {
    if (spec.align == 0) {
      spec.fill = "0";
      spec.align = '=';
    }
    ++at;
  }
  spec.width = parse_count(run, text, at);
  if (peek() == ',' || peek() == '_') spec.group = text[at++];
  if (peek() == '.') {
    ++at;
    spec.precision = parse_count(run, text, at);
  }
  if (peek() != '\0') spec.type = text[at++];
  if (at != text.size()) run.fail("invalid format specifier '{}'", text);
  return spec;
}

std::string format_number(Run& run, const FormatSpec& spec, const Value& value) {
  if (spec.precision.value_or(0) > kMaxPrecision) run.fail("a precision of more than {}", kMaxPrecision);
  const bool real = value.is(Kind::real) || is_one_of(spec.type, "fFeEgG%");
  bool negative = false;
  std::string digits;
  if (real) {
    const double number = value.is_large() ? large_as_real(value) : value.real();
    if (value.is_large() && std::isinf(number)) run.fail("int too large to convert to float");
    negative = std::signbit(number);
    digits = real_digits(run, spec, std::abs(number));
  } else if (value.is_large()) {
    if (spec.type != 0 && !is_one_of(spec.type, "dn"))
      run.fail("an integer outside 64 bits in the format '{}'", spec.type);
    negative = value.digits().starts_with('-');
    digits = value.digits().substr(negative ? 1 : 0);
  } else {
    const int64_t number = value.integer();
    negative = number < 0;
    const auto bits = static_cast<uint64_t>(number);
    digits = integer_digits(run, spec.type, negative ? uint64_t{0} - bits : bits, spec.alternate);
  }
  if (real && spec.alternate && std::isfinite(value.is_large() ? 0.0 : value.real())) {
    const size_t end = std::min(digits.find_first_of("eE%"), digits.size());
    if (digits.find('.') == std::string::npos) digits.insert(end, ".");
  }
  const bool fours = !real && is_one_of(spec.type, kOtherBases);
  if (spec.group != 0) digits = grouped(digits, spec.group, fours ? 4 : 3);
  if (negative) return "-" + digits;
  return spec.sign == '+' || spec.sign == ' ' ? spec.sign + digits : digits;
}

void write_padded(Writer& out, const FormatSpec& spec, std::string_view text, bool number) {
  const int64_t missing = spec.width - static_cast<int64_t>(base::count_code_points(text));
  const char align = spec.align != 0 ? spec.align : number ? '>' : '<';
  const auto fill = [&](int64_t count) {
    out.append(static_cast<size_t>(std::max<int64_t>(count, 0)), spec.fill);
  };
  if (align == '=' && !text.empty() && (text[0] == '-' || text[0] == '+' || text[0] == ' ')) {
    out.append(text.substr(0, 1));
    text.remove_prefix(1);
  }
  const int64_t left = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  fill(left);
  out.append(text);
  fill(missing - std::max<int64_t>(left, 0));
}

Value converted_text(Run& run, const FormatSpec& spec, const Value& value) {
  const Value text = spec.type == 's'   ? str_value(run, value)
                     : spec.type == 'a' ? ascii_value(run, value)
                                        : repr_value(run, value);
  if (!spec.precision) return text;
  const std::string_view bytes = text.bytes();
  size_t at = 0;
  for (int i = 0; i < *spec.precision && at < bytes.size(); ++i) base::next_code_point(bytes, at);
  return run.part(bytes.substr(0, at));
}

void write_character(Writer& out, Run& run, const FormatSpec& spec, const Value& value) {
  std::string text;
  if (value.is_integral() && value.integer() >= 0 && value.integer() < 0x110000 &&
      (value.integer() < 0xD800 || value.integer() > 0xDFFF))
    base::append_utf8(text, static_cast<char32_t>(value.integer()));
  else if (value.is_text() && value.text().length == 1)
    return write_padded(out, spec, value.bytes(), true);
  else
    run.fail("%c requires int or char, not {}", type_name(value));
  write_padded(out, spec, text, true);
}

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
    const Value written = piece.value();
    write_escaped(out, written.bytes());
  }
  values.finish();
  return out.value(format.text().markup);
}

}  // namespace trl::text::jinja
