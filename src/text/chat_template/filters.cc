// The filter table, and filters of single values: default, numbers, attributes, JSON.
#include "text/chat_template/filters.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "base/text/number.h"
#include "base/text/utf8.h"
#include "text/chat_template/json_text.h"
#include "text/chat_template/python.h"
#include "text/chat_template/unicode.h"

namespace trl::text::jinja {

namespace {

Value default_(Run& run, const Value& value, Arguments arguments) {
  const Parameters p(run, "default", std::move(arguments), {"default_value", "boolean"});
  if (value.is_undefined() || (p.truth(1, false) && !truth(value))) return p.value(0, Value::text(""));
  return value;
}

Value abs_(Run& run, const Value& value, Arguments arguments) {
  Parameters(run, "abs", std::move(arguments), {});
  if (value.is_undefined()) run.fail_undefined(value);
  if (value.is_large()) return value.digits().starts_with('-') ? negate(run, value) : value;
  if (!value.is_number()) run.fail("bad operand type for abs(): '{}'", type_name(value));
  if (value.is(Kind::real)) return Value::real(std::abs(value.real()));
  return value.integer() < 0 ? negate(run, value) : Value::integer(value.integer());
}

// Reads a number as int() and float() do: without white space around it, with the digits of any script as
// ASCII, and without single underscores between digits. nullopt: another underscore.
std::optional<std::string> plain_number(std::string_view text) {
  text = strip(text, Side::both);
  std::string ascii;
  for (size_t at = 0; at < text.size();) {
    const char32_t c = base::next_code_point(text, at);
    if (is_decimal(c)) {
      ascii += static_cast<char>('0' + decimal_value(c));
    } else {
      ascii += c < 0x80 ? static_cast<char>(c) : '?';
    }
  }
  std::string out;
  for (size_t i = 0; i < ascii.size(); ++i) {
    if (ascii[i] != '_') {
      out += ascii[i];
      continue;
    }
    const auto digit = [&](size_t at) {
      return at < ascii.size() && std::isxdigit(static_cast<unsigned char>(ascii[at]));
    };
    if (i == 0 || !digit(i - 1) || !digit(i + 1)) return std::nullopt;
  }
  return out;
}

std::optional<double> read_real(std::string_view text) {
  const auto plain = plain_number(text);
  return plain ? parse_real(*plain) : std::nullopt;
}

// Implements Python's int(text, base); nullopt: ValueError.
std::optional<Value> parse_integer(Run& run, std::string_view text, int64_t base) {
  const auto plain = plain_number(text);
  if (!plain) return std::nullopt;
  std::string_view rest = *plain;
  const bool negative = rest.starts_with('-');
  if (negative || rest.starts_with('+')) rest.remove_prefix(1);
  const auto prefix = [&](char lower, int64_t wanted) {
    const bool found =
        rest.size() > 2 && rest[0] == '0' && (rest[1] | 0x20) == lower && (base == wanted || base == 0);
    if (!found) return false;
    rest.remove_prefix(2);
    base = wanted;
    return true;
  };
  if (!prefix('x', 16) && !prefix('o', 8) && !prefix('b', 2) && base == 0) base = 10;
  if (rest.empty() || base < 2 || base > 36 || (base == 10 && rest.size() > kMaxDigits)) return std::nullopt;
  int64_t value = 0;
  bool large = false;
  for (const char c : rest) {
    const int lower = c | 0x20;
    const int digit = c >= '0' && c <= '9' ? c - '0' : lower >= 'a' && lower <= 'z' ? lower - 'a' + 10 : 99;
    if (digit >= base) return std::nullopt;
    large = large || __builtin_mul_overflow(value, base, &value) ||
            __builtin_add_overflow(value, negative ? -digit : digit, &value);
  }
  if (!large) return Value::integer(value);
  if (base != 10) run.fail("an integer outside 64 bits");
  return Value::whole((negative ? "-" : "") + std::string(rest));
}

Value int_(Run& run, const Value& value, Arguments arguments) {
  const Parameters p(run, "int", std::move(arguments), {"default", "base"});
  if (value.is_undefined()) run.fail_undefined(value);
  const Value fallback = p.value(0, Value::integer(0));
  if (value.is_integral()) return Value::integer(value.integer());
  if (value.is_large()) return value;
  std::optional<double> real;
  if (value.is(Kind::real)) real = value.real();
  if (value.is_text()) {
    if (const auto number = parse_integer(run, value.bytes(), p.integer(1, 10))) return *number;
    real = read_real(value.bytes());
  }
  if (!real || !std::isfinite(*real)) return fallback;
  return real_to_integer(run, *real);
}

Value float_(Run& run, const Value& value, Arguments arguments) {
  const Parameters p(run, "float", std::move(arguments), {"default"});
  if (value.is_undefined()) run.fail_undefined(value);
  if (value.is_number()) return Value::real(value.real());
  if (value.is_large()) {
    if (std::isinf(large_as_real(value))) run.fail("int too large to convert to float");
    return Value::real(large_as_real(value));
  }
  const auto real = value.is_text() ? read_real(value.bytes()) : std::nullopt;
  return real ? Value::real(*real) : p.value(0, Value::real(0.0));
}

// Implements Python's round(): the decimal nearest to the exact binary value, ties to even.
double round_common(double value, int64_t precision) {
  if (!std::isfinite(value)) return value;
  if (precision >= 0)
    return base::parse_double(fmt::format("{:.{}f}", value, std::min<int64_t>(precision, 400)))
        .value_or(value);
  const double unit = std::pow(10.0, static_cast<double>(-std::max<int64_t>(precision, -400)));
  return std::isinf(unit) ? 0.0 : std::nearbyint(value / unit) * unit;
}

Value round_(Run& run, const Value& value, Arguments arguments) {
  const Parameters p(run, "round", std::move(arguments), {"precision", "method"});
  if (value.is_undefined()) run.fail_undefined(value);
  if (value.is_large() && p.text(1, "common") == "common" && p.integer(0, 0) >= 0) return value;
  if (!value.is_number()) run.fail("type {} doesn't define round()", type_name(value));
  const int64_t precision = p.integer(0, 0);
  const std::string method = p.text(1, "common");
  if (method == "common") {
    if (value.is(Kind::real)) return Value::real(round_common(value.real(), precision));
    if (precision >= 0) return Value::integer(value.integer());
    return real_to_integer(run, round_common(value.real(), precision));
  }
  if (method != "ceil" && method != "floor")
    run.fail("round(): 'method' is common, ceil or floor, not '{}'", method);
  const double unit = std::pow(10.0, static_cast<double>(precision));
  const double scaled = value.real() * unit;
  return Value::real((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / unit);
}

Value attr(Run& run, const Value& value, Arguments arguments) {
  const Parameters p(run, "attr", std::move(arguments), {"name"}, 1);
  if (value.is_undefined()) run.fail_undefined(value);
  return own_attribute_of(run, value, p.text(0, ""));
}

constexpr FilterEntry kFilters[] = {
    {"abs", abs_},     {"attr", attr}, {"d", default_},   {"default", default_},
    {"float", float_}, {"int", int_},  {"round", round_}, {"tojson", to_json},
};

// Filters of Jinja that no published chat template uses.
constexpr std::string_view kRefused[] = {"filesizeformat", "pprint",   "striptags",
                                         "urlize",         "wordwrap", "xmlattr"};

}  // namespace

bool is_refused_filter(std::string_view name) {
  return std::ranges::find(kRefused, name) != std::end(kRefused);
}

std::string no_filter(std::string_view name) {
  if (is_refused_filter(name)) return fmt::format("the filter '{}' is not supported", name);
  if (name == "random")
    return "the filter 'random' takes another item in each rendering; a chat template cannot use it";
  return fmt::format("No filter named '{}'.", name);
}

FilterFunction find_filter(std::string_view name) {
  if (const auto found = lookup_filter(kFilters, name)) return found;
  if (const auto found = find_text_filter(name)) return found;
  return find_sequence_filter(name);
}

Value soft_text(Run& run, const Value& value) {
  return value.is_text() ? value : Value::text(str_of(run, value));
}

}  // namespace trl::text::jinja
