// str() and repr() as Python 3 writes them.
#include <charconv>
#include <cmath>
#include <system_error>

#include "base/text/number.h"
#include "base/text/utf8.h"
#include "text/chat_template/python.h"
#include "text/chat_template/unicode.h"

namespace trl::text::jinja {

std::string type_name(const Value& value) {
  switch (value.kind()) {
    case Kind::undefined:
      return "Undefined";
    case Kind::none:
      return "NoneType";
    case Kind::boolean:
      return "bool";
    case Kind::integer:
    case Kind::large:
      return "int";
    case Kind::real:
      return "float";
    case Kind::text:
      return value.text().markup ? "Markup" : "str";
    case Kind::mapping:
      return "dict";
    case Kind::object:
      return value.object()->type_name();
    case Kind::sequence:
      break;
  }
  switch (value.sequence().type) {
    case SequenceType::list:
      return "list";
    case SequenceType::tuple:
      return "tuple";
    case SequenceType::group:
      return "_GroupTuple";
    case SequenceType::range:
      return "range";
    case SequenceType::keys:
      return "dict_keys";
    case SequenceType::values:
      return "dict_values";
    case SequenceType::items:
      return "dict_items";
    case SequenceType::iterator:
      return "generator";
  }
  return {};
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

// float_repr_style "short": the shortest digits, an exponent outside 1e-4 ... 1e16.
std::string real_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  // Shortest digits that read back: d.ddde+xx, so that a large value does not get digits of its binary form.
  char buffer[32];
  const char* end =
      std::to_chars(buffer, buffer + sizeof buffer, std::abs(value), std::chars_format::scientific).ptr;
  const std::string_view shortest(buffer, static_cast<size_t>(end - buffer));
  const size_t exponent = shortest.find('e');
  std::string digits(shortest.substr(0, 1));
  if (exponent > 2) digits += shortest.substr(2, exponent - 2);
  // value = 0.DIGITS * 10^point
  const int point = static_cast<int>(base::parse_int64(shortest.substr(exponent + 1)).value_or(0)) + 1;
  std::string out = std::signbit(value) ? "-" : "";
  if (value == 0) return out + "0.0";
  const int count = static_cast<int>(digits.size());
  if (point > 16 || point <= -4) {
    out += digits.substr(0, 1);
    if (count > 1) out += "." + digits.substr(1);
    return out + fmt::format("e{}{:02}", point > 0 ? '+' : '-', std::abs(point - 1));
  }
  if (point <= 0) return out + "0." + std::string(static_cast<size_t>(-point), '0') + digits;
  if (point >= count) return out + digits + std::string(static_cast<size_t>(point - count), '0') + ".0";
  return out + digits.substr(0, static_cast<size_t>(point)) + "." + digits.substr(static_cast<size_t>(point));
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

void write_sequence_repr(Writer& out, Run& run, const Sequence& sequence) {
  switch (sequence.type) {
    case SequenceType::iterator:
      out.append("<generator object>");
      return;
    case SequenceType::tuple:
    case SequenceType::group:
      out.append("(");
      write_items(out, run, sequence.items);
      out.append(sequence.items.size() == 1 ? ",)" : ")");
      return;
    case SequenceType::range: {
      const auto& [start, stop, step] = sequence.range;
      out.append(step == 1 ? fmt::format("range({}, {})", start, stop)
                           : fmt::format("range({}, {}, {})", start, stop, step));
      return;
    }
    case SequenceType::list:
      break;
    case SequenceType::keys:
      out.append("dict_keys(");
      break;
    case SequenceType::values:
      out.append("dict_values(");
      break;
    case SequenceType::items:
      out.append("dict_items(");
      break;
  }
  out.append("[");
  write_items(out, run, sequence.items);
  out.append(sequence.type == SequenceType::list ? "]" : "])");
}

void write_repr(Writer& out, Run& run, const Value& value) {
  run.spend(1);
  switch (value.kind()) {
    case Kind::undefined:
      out.append("Undefined");
      return;
    case Kind::text:
      if (value.text().markup) out.append("Markup(");
      write_text_repr(out, value.bytes());
      if (value.text().markup) out.append(")");
      return;
    case Kind::sequence:
      write_sequence_repr(out, run, value.sequence());
      return;
    case Kind::mapping: {
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
      return;
    }
    default:
      write_str(out, run, value);
  }
}

}  // namespace

void write_str(Writer& out, Run& run, const Value& value) {
  switch (value.kind()) {
    case Kind::undefined:
      return;
    case Kind::none:
      out.append("None");
      return;
    case Kind::boolean:
      out.append(value.boolean() ? "True" : "False");
      return;
    case Kind::integer:
      out.append(fmt::format("{}", value.integer()));
      return;
    case Kind::real:
      out.append(real_repr(value.real()));
      return;
    case Kind::large:
      out.append(value.digits());
      return;
    case Kind::text:
      out.append(value.bytes());
      return;
    case Kind::object:
      out.append(value.object()->describe());
      return;
    default:
      write_repr(out, run, value);
  }
}

std::string str_of(Run& run, const Value& value) {
  Writer out(run);
  write_str(out, run, value);
  return out.take();
}

std::string repr_of(Run& run, const Value& value) {
  Writer out(run);
  write_repr(out, run, value);
  return out.take();
}

std::string ascii_of(Run& run, const Value& value) {
  const std::string text = repr_of(run, value);
  Writer out(run);
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = base::next_code_point(text, at);
    out.append(c < 0x80 ? text.substr(begin, 1) : escaped(c));
  }
  return out.take();
}

}  // namespace trl::text::jinja
