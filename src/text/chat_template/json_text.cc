// JSON as Python writes it: floats by repr, NaN and Infinity, no escaping beyond what JSON demands.
#include "text/chat_template/json_text.h"

#include <algorithm>
#include <cmath>

#include "base/text/utf8.h"
#include "text/chat_template/python.h"

namespace trl::text::jinja {

namespace {

class JsonWriter {
 public:
  JsonWriter(Run& run, Writer& out, const JsonStyle& style) : run_(run), out_(out), style_(style) {}

  void write(const Value& value, int level) {
    run_.spend(1);
    switch (value.kind()) {
      case Kind::none:
        out_.append("null");
        return;
      case Kind::boolean:
        out_.append(value.boolean() ? "true" : "false");
        return;
      case Kind::integer:
        out_.append(fmt::format("{}", value.integer()));
        return;
      case Kind::large:
        out_.append(value.digits());
        return;
      case Kind::real:
        out_.append(real(value.real()));
        return;
      case Kind::text:
        text(value.bytes());
        return;
      case Kind::mapping:
        mapping(value.mapping(), level);
        return;
      case Kind::sequence:
        if (value.sequence().type <= SequenceType::group) {
          sequence(value.sequence().items, level);
          return;
        }
        break;
      default:
        break;
    }
    run_.fail("Object of type {} is not JSON serializable", type_name(value));
  }

 private:
  static std::string real(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
    return real_repr(value);
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
    switch (c) {
      case '"':
        return "\\\"";
      case '\\':
        return "\\\\";
      case '\n':
        return "\\n";
      case '\r':
        return "\\r";
      case '\t':
        return "\\t";
      case '\b':
        return "\\b";
      case '\f':
        return "\\f";
      default:
        break;
    }
    const auto code = static_cast<uint32_t>(c);
    if (code >= 0x20 && (code < 0x7F || !style_.ensure_ascii)) return {};
    if (code == 0x7F) return {};
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
      std::stable_sort(entries.begin(), entries.end(),
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
    switch (key.kind()) {
      case Kind::text:
        text(key.bytes());
        return;
      case Kind::none:
        text("null");
        return;
      case Kind::boolean:
        text(key.boolean() ? "true" : "false");
        return;
      case Kind::integer:
        text(fmt::format("{}", key.integer()));
        return;
      case Kind::large:
        text(key.digits());
        return;
      case Kind::real:
        text(real(key.real()));
        return;
      default:
        run_.fail("keys must be str, int, float, bool or None, not {}", type_name(key));
    }
  }

  Run& run_;
  Writer& out_;
  const JsonStyle& style_;
};

}  // namespace

Value to_json(Run& run, const Value& value, Arguments arguments) {
  const Parameters p(run, "tojson", std::move(arguments),
                     {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = p.truth(0, false);
  style.sort_keys = p.truth(3, false);
  if (!p.none(1)) {
    if (p[1].is_text()) {
      style.indent.emplace(p[1].bytes());
    } else {
      style.indent.emplace(static_cast<size_t>(std::clamp<int64_t>(p.integer(1, 0), 0, 1000)), ' ');
    }
    style.item_separator.resize(1);  // no blank before a line end
  }
  if (!p.none(2)) {
    const Values parts = items_of(run, p[2]);
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
