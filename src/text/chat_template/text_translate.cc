// str.translate and str.maketrans.
#include "base/text/utf8.h"
#include "text/chat_template/python.h"
#include "text/chat_template/text_conversions.h"

namespace trl::text::jinja {

namespace {

// What a table has for a character; nullopt: nothing, so that it stays.
std::optional<Value> entry_of(Run& run, const Value& table, char32_t c) {
  const auto key = Value::integer(static_cast<int64_t>(c));
  if (table.is(Kind::mapping)) {
    const Value* found = table.mapping().find(key);
    return found ? std::optional(*found) : std::nullopt;
  }
  if (table.is_undefined()) run.fail_undefined(table);
  const bool indexed =
      table.is_text() || (table.is(Kind::sequence) && table.sequence().type <= SequenceType::range);
  if (!indexed) run.fail("'{}' object is not subscriptable", type_name(table));
  if (static_cast<size_t>(c) >= length(run, table)) return std::nullopt;
  return item_of(run, table, key);
}

void append_entry(Writer& out, Run& run, const Value& entry) {
  if (entry.is_none()) return;
  if (entry.is_text()) {
    out.append(entry.bytes());
    return;
  }
  if (!entry.is_integral()) run.fail("character mapping must return integer, None or str");
  const int64_t code = entry.integer();
  if (code < 0 || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF))
    run.fail("character mapping must be in range(0x110000), and no surrogate");
  std::string one;
  base::append_utf8(one, static_cast<char32_t>(code));
  out.append(one);
}

// The key of maketrans: an int, or the only character of a string.
Value ordinal(Run& run, const Value& key) {
  if (key.is_integral()) return Value::integer(key.integer());
  if (!key.is_text()) run.fail("keys in translate table must be strings or integers");
  if (key.text().length != 1) run.fail("string keys in translate table must be of length 1");
  size_t at = 0;
  return Value::integer(static_cast<int64_t>(base::next_code_point(key.bytes(), at)));
}

}  // namespace

Value translate_text(Run& run, const Value& self, Arguments arguments) {
  const Parameters p(run, "translate", std::move(arguments), {"table"}, 1);
  Writer out(run);
  const std::string& text = self.bytes();
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = base::next_code_point(text, at);
    if (const auto entry = entry_of(run, p[0], c)) {
      append_entry(out, run, *entry);
    } else {
      out.append(std::string_view(text).substr(begin, at - begin));
    }
  }
  return out.value(self.text().markup);
}

Value make_translation(Run& run, const Value&, Arguments arguments) {
  const Parameters p(run, "maketrans", std::move(arguments), {"x", "y", "z"}, 1);
  Mapping table;
  if (!p.given(1)) {
    if (!p[0].is(Kind::mapping)) run.fail("if you give only one argument to maketrans it must be a dict");
    for (const auto& [key, value] : p[0].mapping().entries) run.set(table, ordinal(run, key), value);
    return run.mapping(std::move(table));
  }
  const Values from = items_of(run, Value::text(p.text(0, "")));
  const Values to = items_of(run, Value::text(p.text(1, "")));
  if (from.size() != to.size()) run.fail("the first two maketrans arguments must have equal length");
  for (size_t i = 0; i < from.size(); ++i) run.set(table, ordinal(run, from[i]), ordinal(run, to[i]));
  for (const Value& gone : items_of(run, Value::text(p.text(2, ""))))
    run.set(table, ordinal(run, gone), Value::none());
  return run.mapping(std::move(table));
}

}  // namespace trl::text::jinja
