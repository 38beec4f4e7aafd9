// Filters that make, read or lay out text for people: urlize, xmlattr, striptags, wordwrap, pprint.
#include <algorithm>
#include <set>

#include "base/text/utf8.h"
#include "text/chat_template/filters.h"
#include "text/chat_template/html_text.h"
#include "text/chat_template/links.h"
#include "text/chat_template/markup.h"
#include "text/chat_template/pretty_text.h"
#include "text/chat_template/python.h"
#include "text/chat_template/unicode.h"
#include "text/chat_template/word_wrap.h"

namespace trl::text::jinja {

namespace {

std::string escaped_text(Run& run, const Value& value) {
  Writer out(run);
  write_markup(out, run, value);
  return out.take();
}

Value pprint(Run& run, const Value& value, Arguments arguments) {
  Parameters(run, "pprint", std::move(arguments), {});
  return pretty_text(run, value);
}

Value striptags(Run& run, const Value& value, Arguments arguments) {
  Parameters(run, "striptags", std::move(arguments), {});
  return run.text(without_tags(run, str_of(run, value)));
}

Value xmlattr(Run& run, const Value& value, Arguments arguments) {
  const Parameters p(run, "xmlattr", std::move(arguments), {"autospace"});
  if (value.is_undefined()) run.fail_undefined(value);
  if (!value.is(Kind::mapping)) run.fail("xmlattr needs a dict, not {}", type_name(value));
  Writer out(run);
  for (const auto& [key, item] : value.mapping().entries) {
    if (item.is_none() || item.is_undefined()) continue;
    if (!key.is_text()) run.fail("xmlattr: an attribute's name is a str, not {}", type_name(key));
    if (key.bytes().find_first_of(" \t\n\r\f\v/>=") != std::string::npos)
      run.fail("Invalid character in attribute name: {}", repr_of(run, key));
    if (out.size() > 0 || p.truth(0, true)) out.append(" ");
    out.append(escaped_text(run, key) + "=\"" + escaped_text(run, item) + "\"");
  }
  return out.value(run.autoescape());
}

bool is_scheme(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return false;
  const std::string_view slashes = text.substr(colon + 1);
  if (!slashes.empty() && slashes != "/" && slashes != "//") return false;
  size_t count = 0;
  for (size_t at = 0; at < colon; ++count) {
    const char32_t c = base::next_code_point(text, at);
    if (!is_word(c) && c != '.' && c != '+' && c != '-') return false;
  }
  return count >= 2;
}

Value urlize(Run& run, const Value& value, Arguments arguments) {
  const Parameters p(run, "urlize", std::move(arguments),
                     {"trim_url_limit", "nofollow", "target", "rel", "extra_schemes"});
  LinkStyle style;
  if (!p.none(0)) style.limit = p.integer(0, 0);
  std::set<std::string> relations = {"noopener"};
  const std::string given = p.none(3) ? "" : p.text(3, "");
  for (const std::string_view relation : split_words(given)) relations.emplace(relation);
  if (p.truth(1, false)) relations.insert("nofollow");
  std::string joined;
  for (const std::string& relation : relations) joined += (joined.empty() ? "" : " ") + relation;
  style.attributes = " rel=\"" + escaped_text(run, Value::text(joined)) + "\"";
  if (!p.none(2) && truth(p[2])) style.attributes += " target=\"" + escaped_text(run, p[2]) + "\"";
  if (!p.none(4)) {
    for (const Value& scheme : items_of(run, p[4])) {
      if (!scheme.is_text() || !is_scheme(scheme.bytes()))
        run.fail("{} is not a valid URI scheme prefix.", repr_of(run, scheme));
      style.schemes.push_back(scheme.bytes());
    }
  }
  return run.text(with_links(run, escaped_text(run, value), style), run.autoescape());
}

std::u32string code_points(std::string_view text) {
  std::u32string out;
  for (size_t at = 0; at < text.size();) out += base::next_code_point(text, at);
  return out;
}

Value wordwrap(Run& run, const Value& value, Arguments arguments) {
  const Parameters p(run, "wordwrap", std::move(arguments),
                     {"width", "break_long_words", "wrapstring", "break_on_hyphens"});
  if (value.is_undefined()) run.fail_undefined(value);
  if (!value.is_text()) run.fail("wordwrap needs a str, not {}", type_name(value));
  const WrapStyle style{p.integer(0, 79), p.truth(1, true), p.truth(3, true)};
  const std::string between = p.none(2) ? "\n" : p.text(2, "\n");
  run.produce(value.text().length * sizeof(char32_t));
  Writer out(run);
  bool first = true;
  for (const std::string_view paragraph : split_lines(value.bytes(), false)) {
    if (style.width <= 0) run.fail("invalid width {} (must be > 0)", style.width);
    const auto lines = wrap_words(run, code_points(paragraph), style);
    if (!first) out.append(between);
    first = false;
    for (size_t i = 0; i < lines.size(); ++i) {
      if (i > 0) out.append(between);
      std::string line;
      for (const char32_t c : lines[i]) base::append_utf8(line, c);
      out.append(line);
    }
  }
  return out.value();
}

constexpr FilterEntry kMarkupFilters[] = {
    {"pprint", pprint},     {"striptags", striptags}, {"urlize", urlize},
    {"wordwrap", wordwrap}, {"xmlattr", xmlattr},
};

}  // namespace

FilterFunction find_markup_filter(std::string_view name) { return lookup_filter(kMarkupFilters, name); }

}  // namespace trl::text::jinja
