// str() and repr() as Python 3 writes them.
#include <utf8proc.h>

#include <cmath>

#include "base/number.h"
#include "base/utf8.h"
#include "text/chat_template/python.h"

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
      return true;
  }
  return true;
}

// float_repr_style "short": the shortest digits, an exponent outside 1e-4 ... 1e16.
std::string real_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::string digits;
  int point = 0;  // value = 0.DIGITS * 10^point
  bool seen_point = false;
  const std::string shortest = base::format_double(std::abs(value));
  for (size_t i = 0; i < shortest.size(); ++i) {
    const char c = shortest[i];
    if (c == 'e') {
      point += static_cast<int>(base::parse_int64(std::string_view(shortest).substr(i + 1)).value_or(0));
      break;
    }
    if (c == '.') {
      seen_point = true;
    } else if (c != '0' || !digits.empty()) {
      digits += c;
      if (!seen_point) ++point;
    } else if (seen_point) {
      --point;
    }
  }
  while (!digits.empty() && digits.back() == '0') digits.pop_back();
  std::string out = std::signbit(value) ? "-" : "";
  if (digits.empty()) return out + "0.0";
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

namespace {

bool printable(char32_t c) {
  if (c < 0x7F) return c >= 0x20;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
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
    } else if (printable(c)) {
      out.append(text.substr(begin, at - begin));
    } else {
      const auto code = static_cast<uint32_t>(c);
      out.append(code < 0x100     ? fmt::format("\\x{:02x}", code)
                 : code < 0x10000 ? fmt::format("\\u{:04x}", code)
                                  : fmt::format("\\U{:08x}", code));
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
      const Values& items = sequence.items;
      const int64_t first = items.empty() ? 0 : items.front().integer();
      const int64_t step = items.size() < 2 ? 1 : items[1].integer() - first;
      const int64_t stop = items.empty() ? 0 : items.back().integer() + (step > 0 ? 1 : -1);
      out.append(step == 1 ? fmt::format("range({}, {})", first, stop)
                           : fmt::format("range({}, {}, {})", first, stop, step));
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

}  // namespace trl::text::jinja
