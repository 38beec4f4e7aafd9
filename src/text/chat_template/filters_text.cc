// Filters of strings.
#include <algorithm>

#include "base/text/utf8.h"
#include "text/chat_template/filters.h"
#include "text/chat_template/format.h"
#include "text/chat_template/markup.h"
#include "text/chat_template/methods.h"
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

void write_markup(Writer& out, Run& run, const Value& value) {
  if (value.is_text() && value.text().markup) {
    out.append(value.bytes());
  } else {
    write_escaped(out, str_of(run, value));
  }
}

namespace {

template <std::string (*Map)(std::string_view)>
Value mapped(Run& run, const Value& value, Arguments arguments) {
  Parameters(run, "the filter", std::move(arguments), {});
  const Value text = soft_text(run, value);
  run.spend(static_cast<int64_t>(text.bytes().size() / 8));
  return run.text(Map(text.bytes()), text.text().markup);
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

Value trim(Run& run, const Value& value, Arguments arguments) {
  const Parameters p(run, "trim", std::move(arguments), {"chars"});
  return strip_text(run, soft_text(run, value), p.value(0, Value::none()), static_cast<int>(Side::both));
}

Value replace(Run& run, const Value& value, Arguments arguments) {
  const Parameters p(run, "replace", std::move(arguments), {"old", "new", "count"}, 2);
  const int64_t count = p.none(2) ? -1 : p.integer(2, -1);
  const auto is_markup = [](const Value& v) { return v.is_text() && v.text().markup; };
  const bool markup = run.autoescape() && (is_markup(value) || is_markup(p[0]) || is_markup(p[1]));
  if (!markup)
    return replace_text(run, Value::text(str_of(run, value)), str_of(run, p[0]), str_of(run, p[1]), count);
  Writer text(run);
  write_markup(text, run, value);
  Writer replacement(run);
  write_markup(replacement, run, p[1]);
  return replace_text(run, text.value(true), str_of(run, p[0]), replacement.text(), count);
}

Value center(Run& run, const Value& value, Arguments arguments) {
  const Parameters p(run, "center", std::move(arguments), {"width"});
  return find_text_method("center")(run, soft_text(run, value), {{Value::integer(p.integer(0, 80))}, {}});
}

Value indent(Run& run, const Value& value, Arguments arguments) {
  const Parameters p(run, "indent", std::move(arguments), {"width", "first", "blank"});
  if (value.is_undefined()) run.fail_undefined(value);
  if (!value.is_text()) run.fail("indent needs a str, not {}", type_name(value));
  const std::string indention =
      p.given(0) && p[0].is_text()
          ? p[0].bytes()
          : std::string(static_cast<size_t>(std::clamp<int64_t>(p.integer(0, 4), 0, 10000)), ' ');
  const bool blank = p.truth(2, false);
  const std::string text = value.bytes() + "\n";
  Writer out(run);
  if (p.truth(1, false)) out.append(indention);
  bool first = true;
  for (const std::string_view line : split_lines(text, false)) {
    if (!first) {
      out.append("\n");
      if (blank || !line.empty()) out.append(indention);
    }
    first = false;
    out.append(line);
  }
  return out.value(value.text().markup);
}

Value truncate(Run& run, const Value& value, Arguments arguments) {
  const Parameters p(run, "truncate", std::move(arguments), {"length", "killwords", "end", "leeway"});
  const int64_t limit = p.integer(0, 255);
  const std::string end = p.text(2, "...");
  const auto end_length = static_cast<int64_t>(base::count_code_points(end));
  const int64_t leeway = p.none(3) ? 5 : p.integer(3, 5);
  if (limit < end_length || leeway < 0)
    run.fail("truncate(): 'length' is less than that of 'end', or 'leeway' negative");
  if (static_cast<int64_t>(length(run, value)) - leeway <= limit) return value;
  if (!value.is_text()) run.fail("truncate needs a str, not {}", type_name(value));
  std::string kept =
      value.bytes().substr(0, byte_offset(value.text(), static_cast<size_t>(limit - end_length)));
  if (!p.truth(1, false)) kept = kept.substr(0, kept.rfind(' '));
  return run.text(kept + end);
}

Value wordcount(Run& run, const Value& value, Arguments arguments) {
  Parameters(run, "wordcount", std::move(arguments), {});
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

Value escape(Run& run, const Value& value, Arguments arguments) {
  Parameters(run, "escape", std::move(arguments), {});
  if (value.is_text() && value.text().markup) return value;
  Writer out(run);
  write_escaped(out, str_of(run, value));
  return out.value(true);
}

Value forceescape(Run& run, const Value& value, Arguments arguments) {
  Parameters(run, "forceescape", std::move(arguments), {});
  Writer out(run);
  write_escaped(out, str_of(run, value));
  return out.value(true);
}

Value safe(Run& run, const Value& value, Arguments arguments) {
  Parameters(run, "safe", std::move(arguments), {});
  return run.text(str_of(run, value), true);
}

Value string(Run& run, const Value& value, Arguments arguments) {
  Parameters(run, "string", std::move(arguments), {});
  return soft_text(run, value);
}

Value format(Run& run, const Value& value, Arguments arguments) {
  if (!arguments.positional.empty() && !arguments.named.empty())
    run.fail("format: positional and keyword arguments at the same time");
  const Value text = soft_text(run, value);
  if (arguments.named.empty()) return format_percent(run, text, run.tuple(std::move(arguments.positional)));
  Mapping named;
  for (auto& [name, item] : arguments.named) run.set(named, Value::text(name), std::move(item));
  return format_percent(run, text, run.mapping(std::move(named)));
}

void write_quoted(Writer& out, std::string_view text, bool query) {
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
                       (byte >= '0' && byte <= '9') || c == '_' || c == '.' || c == '-' || c == '~' ||
                       (c == '/' && !query);
    if (plain) {
      out.append(std::string_view(&c, 1));
    } else if (c == ' ' && query) {
      out.append("+");
    } else {
      out.append(fmt::format("%{:02X}", byte));
    }
  }
}

Value urlencode(Run& run, const Value& value, Arguments arguments) {
  Parameters(run, "urlencode", std::move(arguments), {});
  Writer out(run);
  if (value.is_text() || !iterable(value)) {
    write_quoted(out, str_of(run, value), false);
    return out.value();
  }
  Values pairs;
  if (value.is(Kind::mapping)) {
    for (const auto& [key, item] : value.mapping().entries) pairs.push_back(run.tuple({key, item}));
  } else {
    pairs = items_of(run, value);
  }
  for (size_t i = 0; i < pairs.size(); ++i) {
    const Values pair = items_of(run, pairs[i]);
    if (pair.size() != 2) run.fail("urlencode needs pairs");
    if (i > 0) out.append("&");
    write_quoted(out, str_of(run, pair[0]), true);
    out.append("=");
    write_quoted(out, str_of(run, pair[1]), true);
  }
  return out.value();
}

constexpr FilterEntry kTextFilters[] = {
    {"capitalize", mapped<capitalize>},
    {"center", center},
    {"e", escape},
    {"escape", escape},
    {"forceescape", forceescape},
    {"format", format},
    {"indent", indent},
    {"lower", mapped<to_lower>},
    {"replace", replace},
    {"safe", safe},
    {"string", string},
    {"title", mapped<title_words>},
    {"trim", trim},
    {"truncate", truncate},
    {"upper", mapped<to_upper>},
    {"urlencode", urlencode},
    {"wordcount", wordcount},
};

}  // namespace

FilterFunction find_text_filter(std::string_view name) { return lookup_filter(kTextFilters, name); }

}  // namespace trl::text::jinja
