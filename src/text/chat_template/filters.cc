// Filters of single values and of strings, and the choice of a filter by its name.
#include "text/chat_template/filters.h"

#include <cctype>
#include <cmath>

#include "base/text/number.h"
#include "base/text/utf8.h"
#include "text/chat_template/python.h"
#include "text/chat_template/unicode.h"

namespace trl::text::jinja {

void write_escaped(Writer& out, std::string_view text) {
  size_t plain = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const std::string_view entity = c == '&'    ? "&amp;"
                                    : c == '<'  ? "&lt;"
                                    : c == '>'  ? "&gt;"
                                    : c == '"'  ? "&#34;"
                                    : c == '\'' ? "&#39;"
                                                : std::string_view();
    if (entity.empty()) continue;
    out.append(text.substr(plain, i - plain));
    out.append(entity);
    plain = i + 1;
  }
  out.append(text.substr(plain));
}

namespace {

Value default_(Run&, const Value& value, const Parameters& p) {
  if (value.is_undefined() || (p.truth(1, false) && !truth(value))) return p.value(0, Value::text(""));
  return value;
}

Value abs_(Run& run, const Value& value, const Parameters&) {
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
    if (is_decimal(c))
      ascii += static_cast<char>('0' + decimal_value(c));
    else
      ascii += c < 0x80 ? static_cast<char>(c) : '?';
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

Value int_(Run& run, const Value& value, const Parameters& p) {
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

Value float_(Run& run, const Value& value, const Parameters& p) {
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

Value round_(Run& run, const Value& value, const Parameters& p) {
  if (value.is_undefined()) run.fail_undefined(value);
  if (value.is_large() && p.text(1, "common") == "common" && p.integer(0, 0) >= 0) return value;
  if (!value.is_number()) run.fail("type {} doesn't define round()", type_name(value));
  const int64_t precision = p.integer(0, 0);
  const std::string_view method = p.text(1, "common");
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

Value attr(Run& run, const Value& value, const Parameters& p) {
  if (value.is_undefined()) run.fail_undefined(value);
  return own_attribute_of(run, value, p.text(0));
}

// Filters of strings.

template <std::string (*Map)(std::string_view)>
Value soft_mapped(Run& run, const Value& value, const Parameters&) {
  const Value text = soft_text(run, value);
  run.spend(static_cast<int64_t>(text.bytes().size() / 8));
  return run.mapped(text, Map(text.bytes()));
}

// Makes a title by Jinja's own rule: a word begins after a hyphen, white space or an opening bracket.
std::string title_words(std::string_view text) {
  const auto separates = [](char32_t c) {
    return c == '-' || c == '(' || c == '{' || c == '[' || c == '<' || is_space(c);
  };
  std::string out;
  size_t begin = 0;
  const auto flush = [&](size_t end) {
    if (end == begin) return;
    const std::string_view word = text.substr(begin, end - begin);
    size_t first = 0;
    base::next_code_point(word, first);
    out += to_upper(word.substr(0, first)) + to_lower(word.substr(first));
  };
  for (size_t at = 0; at < text.size();) {
    const size_t end = at;
    if (!separates(base::next_code_point(text, at))) continue;
    flush(end);
    out.append(text.substr(end, at - end));
    begin = at;
  }
  flush(text.size());
  return out;
}

Value trim(Run& run, const Value& value, const Parameters& p) {
  return strip_text(run, soft_text(run, value), p.value(0, Value::none()), static_cast<int>(Side::both));
}

Value replace(Run& run, const Value& value, const Parameters& p) {
  const int64_t count = p.none(2) ? -1 : p.integer(2, -1);
  const Value from = str_value(run, p[0]), to = str_value(run, p[1]);
  return replace_text(run, str_value(run, value), from.bytes(), to.bytes(), count);
}

Value center(Run& run, const Value& value, const Parameters& p) {
  return invoke(run, *find_text_method("center"), soft_text(run, value),
                {{Value::integer(p.integer(0, 80))}, {}});
}

Value indent(Run& run, const Value& value, const Parameters& p) {
  if (value.is_undefined()) run.fail_undefined(value);
  if (!value.is_text()) run.fail("indent needs a str, not {}", type_name(value));
  const bool own = p.given(0) && p[0].is_text();
  const auto width = static_cast<size_t>(own ? 0 : std::clamp<int64_t>(p.integer(0, 4), 0, 10000));
  const std::string spaces(width, ' ');
  const std::string_view indention = own ? p[0].bytes() : spaces;
  const bool blank = p.truth(2, false);
  Writer ended(run);
  ended.append(value.bytes());
  ended.append("\n");
  const Value text = ended.value();
  Writer out(run);
  if (p.truth(1, false)) out.append(indention);
  bool first = true;
  for (const std::string_view line : split_lines(text.bytes(), false)) {
    if (!first) {
      out.append("\n");
      if (blank || !line.empty()) out.append(indention);
    }
    first = false;
    out.append(line);
  }
  return out.value(value.text().markup);
}

Value truncate(Run& run, const Value& value, const Parameters& p) {
  const int64_t limit = p.integer(0, 255);
  const std::string_view end = p.text(2, "...");
  const auto end_length = static_cast<int64_t>(base::count_code_points(end));
  const int64_t leeway = p.none(3) ? 5 : p.integer(3, 5);
  if (limit < end_length || leeway < 0)
    run.fail("truncate(): 'length' is less than that of 'end', or 'leeway' negative");
  if (static_cast<int64_t>(length(run, value)) - leeway <= limit) return value;
  if (!value.is_text()) run.fail("truncate needs a str, not {}", type_name(value));
  std::string_view kept = value.bytes();
  kept = kept.substr(0, byte_offset(value.text(), static_cast<size_t>(limit - end_length)));
  if (!p.truth(1, false)) kept = kept.substr(0, kept.rfind(' '));
  Writer out(run);
  out.append(kept);
  out.append(end);
  return out.value();
}

Value wordcount(Run& run, const Value& value, const Parameters&) {
  const Value text = soft_text(run, value);
  run.spend(static_cast<int64_t>(text.bytes().size() / 8));
  int64_t count = 0;
  bool inside = false;
  for (size_t at = 0; at < text.bytes().size();) {
    const bool word = is_word(base::next_code_point(text.bytes(), at));
    if (word && !inside) ++count;
    inside = word;
  }
  return Value::integer(count);
}

Value escape(Run& run, const Value& value, const Parameters&) {
  if (value.is_text() && value.text().markup) return value;
  Writer out(run);
  const Value text = str_value(run, value);
  write_escaped(out, text.bytes());
  return out.value(true);
}

Value safe(Run& run, const Value& value, const Parameters&) {
  Writer out(run);
  write_str(out, run, value);
  return out.value(true);
}

Value string(Run& run, const Value& value, const Parameters&) { return soft_text(run, value); }

Value format(Run& run, const Value& value, Arguments arguments) {
  if (!arguments.positional.empty() && !arguments.named.empty())
    run.fail("format: positional and keyword arguments at the same time");
  const Value text = soft_text(run, value);
  if (arguments.named.empty()) return format_percent(run, text, run.tuple(std::move(arguments.positional)));
  Mapping named;
  for (auto& [name, item] : arguments.named) run.set(named, std::move(name), std::move(item));
  return format_percent(run, text, run.mapping(std::move(named)));
}

constexpr Callable kFilters[] = {
    {"abs", abs_},
    {"attr", attr, {"name"}, 1},
    {"d", default_, {"default_value", "boolean"}, 0, "default"},
    {"default", default_, {"default_value", "boolean"}},
    {"float", float_, {"default"}},
    {"int", int_, {"default", "base"}},
    {"round", round_, {"precision", "method"}},
    {"tojson", to_json, {"ensure_ascii", "indent", "separators", "sort_keys"}},
    {"capitalize", soft_mapped<capitalize>, {}, 0, "the filter"},
    {"center", center, {"width"}},
    {"e", escape, {}, 0, "escape"},
    {"escape", escape},
    {"format", format},
    {"indent", indent, {"width", "first", "blank"}},
    {"lower", soft_mapped<to_lower>, {}, 0, "the filter"},
    {"replace", replace, {"old", "new", "count"}, 2},
    {"safe", safe},
    {"string", string},
    {"title", soft_mapped<title_words>, {}, 0, "the filter"},
    {"trim", trim, {"chars"}},
    {"truncate", truncate, {"length", "killwords", "end", "leeway"}},
    {"upper", soft_mapped<to_upper>, {}, 0, "the filter"},
    {"wordcount", wordcount},
};

// Filters of Jinja that no published chat template uses.
constexpr std::string_view kRefused[] = {"filesizeformat", "forceescape", "pprint",   "striptags",
                                         "urlencode",      "urlize",      "wordwrap", "xmlattr"};

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

const Callable* find_filter(std::string_view name) {
  const Callable* found = find_named(kFilters, name);
  return found ? found : find_sequence_filter(name);
}

Value invoke(Run& run, const Callable& callable, const Value& self, Arguments arguments) {
  if (const auto* variadic = std::get_if<Callable::Variadic>(&callable.function))
    return (*variadic)(run, self, std::move(arguments));
  const auto& names = callable.parameters;
  const auto count = static_cast<size_t>(std::ranges::find(names, "") - names.begin());
  const Parameters parameters(run, callable.shown.empty() ? callable.name : callable.shown,
                              std::move(arguments), std::span(names).first(count), callable.required);
  return std::get<Callable::Bound>(callable.function)(run, self, parameters);
}

Value soft_text(Run& run, const Value& value) { return value.is_text() ? value : str_value(run, value); }

}  // namespace trl::text::jinja
