// str() and repr() as Python 3 writes them, and JSON: floats by repr, NaN and Infinity, no escaping beyond
// what JSON demands.
#include "text/chat_template/python.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>

#include "base/text/utf8.h"
#include "text/chat_template/filters.h"
#include "text/chat_template/unicode.h"

namespace trl::text::jinja {

std::string type_name(const Value& value) {
  constexpr const char* kKinds[] = {"Undefined", "NoneType", "bool", "int",    "float",
                                    "str",       "",         "dict", "object", "int"};
  constexpr const char* kSequences[] = {"list",      "tuple",       "_GroupTuple", "range",
                                        "dict_keys", "dict_values", "dict_items",  "generator"};
  if (value.is(Kind::object)) return value.object()->type_name();
  if (value.is_text() && value.text().markup) return "Markup";
  if (value.is(Kind::sequence)) return kSequences[static_cast<size_t>(value.sequence().type)];
  return kKinds[static_cast<size_t>(value.kind())];
}

bool truth(const Value& value) {
  switch (value.kind()) {
    case Kind::undefined:
    case Kind::none:
      return false;
    case Kind::boolean:
      return value.boolean();
    case Kind::integer:
      return value.integer() != 0;
    case Kind::real:
      return value.real() != 0;
    case Kind::text:
      return !value.bytes().empty();
    case Kind::sequence:
      return value.sequence().type == SequenceType::iterator || !value.sequence().items.empty();
    case Kind::mapping:
      return !value.mapping().entries.empty();
    case Kind::object:
    case Kind::large:
      return true;
  }
  return true;
}

// Writes the shortest digits that read back, with an exponent outside 1e-4 ... 1e16, as {fmt} does too.
std::string real_repr(double value) {
  if (std::isnan(value)) return "nan";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

std::optional<double> parse_real(std::string_view ascii) {
  if (ascii.starts_with('+') && !ascii.substr(1).starts_with('-')) ascii.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(ascii.data(), ascii.data() + ascii.size(), value);
  if (ascii.empty() || end != ascii.data() + ascii.size() || error == std::errc::invalid_argument)
    return std::nullopt;
  if (error == std::errc()) return value;
  const bool negative = ascii.starts_with('-');
  const std::string_view digits = ascii.substr(negative ? 1 : 0);
  const bool small = digits.find("e-") != digits.npos || digits.find("E-") != digits.npos ||
                     digits.starts_with("0.") || digits.starts_with('.');
  return std::copysign(small ? 0.0 : HUGE_VAL, negative ? -1.0 : 1.0);
}

namespace {

std::string escaped(char32_t c) {
  const auto code = static_cast<uint32_t>(c);
  if (code < 0x100) return fmt::format("\\x{:02x}", code);
  return code < 0x10000 ? fmt::format("\\u{:04x}", code) : fmt::format("\\U{:08x}", code);
}

void write_text_repr(Writer& out, std::string_view text) {
  const bool doubled = text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos;
  const char quote = doubled ? '"' : '\'';
  out.append(std::string_view(&quote, 1));
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = base::next_code_point(text, at);
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      out.append("\\");
      out.append(text.substr(begin, 1));
    } else if (c == '\n' || c == '\r' || c == '\t') {
      out.append(c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
    } else if (is_printable(c)) {
      out.append(text.substr(begin, at - begin));
    } else {
      out.append(escaped(c));
    }
  }
  out.append(std::string_view(&quote, 1));
}

void write_repr(Writer& out, Run& run, const Value& value);

void write_items(Writer& out, Run& run, const Values& items) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out.append(", ");
    write_repr(out, run, items[i]);
  }
}

void write_sequence_repr(Writer& out, Run& run, const Value& value) {
  const Sequence& sequence = value.sequence();
  if (sequence.type == SequenceType::iterator) return out.append("<generator object>");
  if (sequence.type == SequenceType::range) {
    const auto& [start, stop, step] = sequence.range;
    return out.append(step == 1 ? fmt::format("range({}, {})", start, stop)
                                : fmt::format("range({}, {}, {})", start, stop, step));
  }
  if (sequence.type == SequenceType::tuple || sequence.type == SequenceType::group) {
    out.append("(");
    write_items(out, run, sequence.items);
    return out.append(sequence.items.size() == 1 ? ",)" : ")");
  }
  const bool view = sequence.type != SequenceType::list;  // dict_keys([...]) ...
  if (view) out.append(type_name(value) + "(");
  out.append("[");
  write_items(out, run, sequence.items);
  out.append(view ? "])" : "]");
}

void write_repr(Writer& out, Run& run, const Value& value) {
  run.spend(1);
  if (value.is_undefined()) return out.append("Undefined");
  if (value.is(Kind::sequence)) return write_sequence_repr(out, run, value);
  if (value.is_text()) {
    if (value.text().markup) out.append("Markup(");
    write_text_repr(out, value.bytes());
    if (value.text().markup) out.append(")");
  } else if (value.is(Kind::mapping)) {
    out.append("{");
    bool first = true;
    for (const auto& [key, item] : value.mapping().entries) {
      if (!first) out.append(", ");
      first = false;
      write_repr(out, run, key);
      out.append(": ");
      write_repr(out, run, item);
    }
    out.append("}");
  } else {
    write_str(out, run, value);
  }
}

struct JsonStyle {
  bool ensure_ascii = false, sort_keys = false;
  std::optional<std::string_view> indent;  // one level's indentation
  std::string_view item_separator = ", ";
  std::string_view key_separator = ": ";
};

class JsonWriter {
 public:
  JsonWriter(Run& run, Writer& out, const JsonStyle& style) : run_(run), out_(out), style_(style) {}

  void write(const Value& value, int level) {
    run_.spend(1);
    if (value.is_text()) return text(value.bytes());
    if (value.is(Kind::mapping)) return mapping(value.mapping(), level);
    if (value.is(Kind::sequence) && value.sequence().type <= SequenceType::group)
      return sequence(value.sequence().items, level);
    const std::optional<std::string> plain = scalar(value);
    if (!plain) run_.fail("Object of type {} is not JSON serializable", type_name(value));
    out_.append(*plain);
  }

 private:
  // nullopt: not null, a boolean or a number.
  static std::optional<std::string> scalar(const Value& value) {
    if (value.is_none()) return "null";
    if (value.is(Kind::boolean)) return value.boolean() ? "true" : "false";
    if (value.is(Kind::integer)) return fmt::format("{}", value.integer());
    if (value.is_large()) return value.digits();
    if (!value.is(Kind::real)) return std::nullopt;
    if (std::isnan(value.real())) return "NaN";
    if (std::isinf(value.real())) return value.real() < 0 ? "-Infinity" : "Infinity";
    return real_repr(value.real());
  }

  void text(std::string_view text) {
    out_.append("\"");
    size_t plain = 0;
    const auto flush = [&](size_t end) { out_.append(text.substr(plain, end - plain)); };
    for (size_t at = 0; at < text.size();) {
      const size_t begin = at;
      const char32_t c = base::next_code_point(text, at);
      const std::string escaped = escape(c);
      if (escaped.empty()) continue;
      flush(begin);
      out_.append(escaped);
      plain = at;
    }
    flush(text.size());
    out_.append("\"");
  }

  std::string escape(char32_t c) const {
    constexpr std::string_view kEscaped = "\"\\\n\r\t\b\f", kLetters = "\"\\nrtbf";
    const auto code = static_cast<uint32_t>(c);
    const size_t known = code < 0x80 ? kEscaped.find(static_cast<char>(c)) : std::string_view::npos;
    if (known != std::string_view::npos) return {'\\', kLetters[known]};
    if (code >= 0x20 && (code <= 0x7F || !style_.ensure_ascii)) return {};
    if (code < 0x10000) return fmt::format("\\u{:04x}", code);
    return fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((code - 0x10000) >> 10),
                       0xDC00 + ((code - 0x10000) & 0x3FF));
  }

  void line(int level) {
    if (!style_.indent) return;
    out_.append("\n");
    for (int i = 0; i < level; ++i) out_.append(*style_.indent);
  }

  void sequence(const Values& items, int level) {
    out_.append("[");
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_.append(style_.item_separator);
      line(level + 1);
      write(items[i], level + 1);
    }
    if (!items.empty()) line(level);
    out_.append("]");
  }

  void mapping(const Mapping& mapping, int level) {
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : mapping.entries) entries.push_back(&entry);
    if (style_.sort_keys) {
      std::ranges::stable_sort(entries,
                               [&](const auto* a, const auto* b) { return less(run_, a->first, b->first); });
    }
    out_.append("{");
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) out_.append(style_.item_separator);
      line(level + 1);
      key(entries[i]->first);
      out_.append(style_.key_separator);
      write(entries[i]->second, level + 1);
    }
    if (!entries.empty()) line(level);
    out_.append("}");
  }

  void key(const Value& key) {
    if (key.is_text()) return text(key.bytes());
    const std::optional<std::string> plain = scalar(key);
    if (!plain) run_.fail("keys must be str, int, float, bool or None, not {}", type_name(key));
    text(*plain);
  }

  Run& run_;
  Writer& out_;
  const JsonStyle& style_;
};

}  // namespace

void write_str(Writer& out, Run& run, const Value& value) {
  switch (value.kind()) {
    case Kind::undefined:
      return;
    case Kind::none:
      return out.append("None");
    case Kind::boolean:
      return out.append(value.boolean() ? "True" : "False");
    case Kind::integer:
      return out.append(fmt::format("{}", value.integer()));
    case Kind::real:
      return out.append(real_repr(value.real()));
    case Kind::large:
      return out.append(value.digits());
    case Kind::text:
      return out.append(value.bytes());
    case Kind::object:
      return out.append(value.object()->describe());
    default:
      write_repr(out, run, value);
  }
}

Value str_value(Run& run, const Value& value) {
  Writer out(run);
  write_str(out, run, value);
  return out.value();
}

Value repr_value(Run& run, const Value& value) {
  Writer out(run);
  write_repr(out, run, value);
  return out.value();
}

Value ascii_value(Run& run, const Value& value) {
  const Value repr = repr_value(run, value);
  const std::string_view text = repr.bytes();
  Writer out(run);
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = base::next_code_point(text, at);
    if (c < 0x80)
      out.append(text.substr(begin, 1));
    else
      out.append(escaped(c));
  }
  return out.value();
}

std::string str_of(Run& run, const Value& value) { return str_value(run, value).bytes(); }
std::string repr_of(Run& run, const Value& value) { return repr_value(run, value).bytes(); }

Value to_json(Run& run, const Value& value, const Parameters& p) {
  JsonStyle style;
  style.ensure_ascii = p.truth(0, false);
  style.sort_keys = p.truth(3, false);
  std::string spaces;
  if (!p.none(1)) {
    if (!p[1].is_text())
      spaces.assign(static_cast<size_t>(std::clamp<int64_t>(p.integer(1, 0), 0, 1000)), ' ');
    style.indent = p[1].is_text() ? p[1].bytes() : spaces;
    style.item_separator = ",";  // no blank before a line end
  }
  Values parts;
  if (!p.none(2)) {
    parts = items_of(run, p[2]);
    if (parts.size() != 2 || !parts[0].is_text() || !parts[1].is_text())
      run.fail("tojson(): 'separators' is not a pair of strings");
    style.item_separator = parts[0].bytes();
    style.key_separator = parts[1].bytes();
  }
  Writer out(run);
  JsonWriter(run, out, style).write(value, 0);
  return out.value();
}

}  // namespace trl::text::jinja
