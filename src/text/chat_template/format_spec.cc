// Format specifications, shared by % and str.format. Numbers never depend on the locale.
#include "text/chat_template/format_spec.h"

#include <cmath>

#include "base/text/utf8.h"
#include "text/chat_template/python.h"

namespace trl::text::jinja {

namespace {

constexpr int kMaxCount = 1'000'000;
constexpr int kMaxPrecision = 1000;

std::string integer_digits(Run& run, char type, uint64_t magnitude, bool alternate) {
  switch (type) {
    case 'x':
      return fmt::format("{}{:x}", alternate ? "0x" : "", magnitude);
    case 'X':
      return fmt::format("{}{:X}", alternate ? "0X" : "", magnitude);
    case 'o':
      return fmt::format("{}{:o}", alternate ? "0o" : "", magnitude);
    case 'b':
      return fmt::format("{}{:b}", alternate ? "0b" : "", magnitude);
    case 'd':
    case 'n':
    case 0:
      return fmt::format("{}", magnitude);
    default:
      run.fail("unknown format code '{}' for an int", type);
  }
}

std::string real_digits(Run& run, const FormatSpec& spec, double magnitude) {
  const int precision = spec.precision.value_or(6);
  switch (spec.type) {
    case 'f':
    case 'F':
      return fmt::format("{:.{}f}", magnitude, precision);
    case 'e':
      return fmt::format("{:.{}e}", magnitude, precision);
    case 'E':
      return fmt::format("{:.{}E}", magnitude, precision);
    case 'g':
    case 'n':
      return fmt::format("{:.{}g}", magnitude, std::max(precision, 1));
    case 'G':
      return fmt::format("{:.{}G}", magnitude, std::max(precision, 1));
    case '%':
      return fmt::format("{:.{}f}%", magnitude * 100, precision);
    case 0:
      break;
    default:
      run.fail("unknown format code '{}' for a float", spec.type);
  }
  if (!spec.precision) return real_repr(magnitude);
  std::string text = fmt::format("{:.{}g}", magnitude, std::max(precision, 1));
  if (std::isfinite(magnitude) && text.find_first_of(".e") == std::string::npos) text += ".0";
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
  constexpr std::string_view kReal = "fFeEgG%";
  const bool real =
      value.is(Kind::real) || (spec.type != 0 && kReal.find(spec.type) != std::string_view::npos);
  bool negative = false;
  std::string digits;
  if (real) {
    const double number = value.is_large() ? large_as_real(value) : value.real();
    if (value.is_large() && std::isinf(number)) run.fail("int too large to convert to float");
    negative = std::signbit(number);
    digits = real_digits(run, spec, std::abs(number));
  } else if (value.is_large()) {
    constexpr std::string_view kDecimal = "dn";
    if (spec.type != 0 && kDecimal.find(spec.type) == std::string_view::npos)
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
  constexpr std::string_view kFours = "bxXo";
  const bool fours = !real && spec.type != 0 && kFours.find(spec.type) != std::string_view::npos;
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

std::string converted_text(Run& run, const FormatSpec& spec, const Value& value) {
  std::string text = spec.type == 's'   ? str_of(run, value)
                     : spec.type == 'a' ? ascii_of(run, value)
                                        : repr_of(run, value);
  if (!spec.precision) return text;
  size_t at = 0;
  for (int i = 0; i < *spec.precision && at < text.size(); ++i) base::next_code_point(text, at);
  return text.substr(0, at);
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

}  // namespace trl::text::jinja
