// Methods of str.
#include <algorithm>

#include "base/text/utf8.h"
#include "text/chat_template/format.h"
#include "text/chat_template/methods.h"
#include "text/chat_template/python.h"
#include "text/chat_template/unicode.h"
#include "text/chat_template/unicode_property.h"

namespace trl::text::jinja {

namespace {

std::string_view view(const Value& value) { return value.bytes(); }
Value like(Run& run, const Value& self, std::string_view bytes) {
  return run.text(std::string(bytes), self.text().markup);
}

// Returns the steps for a function that asks for properties of letters.
int64_t letter_cost(const Value& self) {
  return static_cast<int64_t>(self.bytes().size() / (self.text().ascii() ? 8 : 2));
}

template <std::string (*Map)(std::string_view)>
Value mapped(Run& run, const Value& self, Arguments arguments) {
  Parameters(run, "the method", std::move(arguments), {});
  run.spend(letter_cost(self));
  return run.text(Map(self.bytes()), self.text().markup);
}

template <Side Where>
Value strip_method(Run& run, const Value& self, Arguments arguments) {
  const Parameters p(run, "strip", std::move(arguments), {"chars"});
  return strip_text(run, self, p.value(0, Value::none()), static_cast<int>(Where));
}

template <bool (*Test)(char32_t)>
Value all_are(Run& run, const Value& self, Arguments arguments) {
  Parameters(run, "the method", std::move(arguments), {});
  run.spend(letter_cost(self));
  for (size_t at = 0; at < self.bytes().size();) {
    if (!Test(base::next_code_point(self.bytes(), at))) return Value::boolean(false);
  }
  return Value::boolean(!self.bytes().empty());
}

bool letter_or_digit(char32_t c) { return c != '_' && is_word(c); }
bool is_ascii(char32_t c) { return c < 0x80; }
bool goes_on_in_name(char32_t c) { return c < 0x80 ? is_word(c) : has_property(c, Property::xid_continue); }

// Implements islower and isupper: no letter of another case and at least one of this.
template <bool (*Wanted)(char32_t), bool (*Other)(char32_t)>
Value case_is(Run& run, const Value& self, Arguments arguments) {
  Parameters(run, "the method", std::move(arguments), {});
  run.spend(letter_cost(self));
  bool any = false;
  for (size_t at = 0; at < self.bytes().size();) {
    const char32_t c = base::next_code_point(self.bytes(), at);
    if (Other(c) || is_title(c)) return Value::boolean(false);
    any = any || Wanted(c);
  }
  return Value::boolean(any);
}

template <bool (*Test)(char32_t)>
Value all_or_none_are(Run& run, const Value& self, Arguments arguments) {
  const Value all = all_are<Test>(run, self, std::move(arguments));
  return self.bytes().empty() ? Value::boolean(true) : all;
}

Value isidentifier(Run& run, const Value& self, Arguments arguments) {
  const Value all = all_are<goes_on_in_name>(run, self, std::move(arguments));
  if (self.bytes().empty()) return all;
  size_t at = 0;
  const char32_t first = base::next_code_point(self.bytes(), at);
  const bool begins =
      first < 0x80 ? first == '_' || is_letter(first) : has_property(first, Property::xid_start);
  return Value::boolean(begins && truth(all));
}

Value istitle(Run& run, const Value& self, Arguments arguments) {
  Parameters(run, "istitle", std::move(arguments), {});
  run.spend(letter_cost(self));
  return Value::boolean(is_title_case(self.bytes()));
}

struct Window {
  size_t begin, end;
  bool empty;  // the start is past the end: nothing is found, not even an empty text
};

// Returns the byte range of self[start:end]; start and end are parameters first and first + 1.
Window window(const Value& self, const Parameters& p, size_t first) {
  const Text& text = self.text();
  const auto count = static_cast<int64_t>(text.length);
  const auto place = [&](size_t i, int64_t fallback) {
    int64_t at = p.none(i) ? fallback : p.integer(i, fallback);
    if (at < 0) at = std::max<int64_t>(0, at < -count ? 0 : at + count);
    return at;
  };
  const int64_t start = place(first, 0);
  const int64_t end = std::min(place(first + 1, count), count);
  if (start > end) return {0, 0, true};
  return {byte_offset(text, static_cast<size_t>(start)), byte_offset(text, static_cast<size_t>(end)), false};
}

template <bool Last, bool Required>
Value find_method_of(Run& run, const Value& self, Arguments arguments) {
  const Parameters p(run, Last ? "rfind" : "find", std::move(arguments), {"sub", "start", "end"}, 1);
  const std::string sub = p.text(0, "");
  const Window range = window(self, p, 1);
  const std::string_view part = view(self).substr(range.begin, range.end - range.begin);
  const size_t found = range.empty ? std::string::npos
                       : Last      ? find_last_text(run, part, sub)
                                   : find_text(run, part, sub);
  if (found == std::string::npos) {
    if (Required) run.fail("substring not found");
    return Value::integer(-1);
  }
  return Value::size(code_point_index(self.text(), range.begin + found));
}

Value count(Run& run, const Value& self, Arguments arguments) {
  const Parameters p(run, "count", std::move(arguments), {"sub", "start", "end"}, 1);
  const std::string sub = p.text(0, "");
  const Window range = window(self, p, 1);
  const std::string_view part = view(self).substr(range.begin, range.end - range.begin);
  if (range.empty) return Value::integer(0);
  if (sub.empty()) return Value::size(base::count_code_points(part) + 1);
  int64_t total = 0;
  for (size_t at = find_text(run, part, sub); at != std::string::npos;
       at = find_text(run, part, sub, at + sub.size()))
    ++total;
  return Value::integer(total);
}

template <bool End>
Value affix(Run& run, const Value& self, Arguments arguments) {
  const Parameters p(run, End ? "endswith" : "startswith", std::move(arguments), {"affix", "start", "end"},
                     1);
  const Window range = window(self, p, 1);
  const std::string_view part = view(self).substr(range.begin, range.end - range.begin);
  const auto matches = [&](const Value& wanted) {
    if (wanted.is_undefined()) run.fail_undefined(wanted);
    if (!wanted.is_text())
      run.fail("{} first arg must be str or a tuple of str, not {}", End ? "endswith" : "startswith",
               type_name(wanted));
    return !range.empty && (End ? part.ends_with(wanted.bytes()) : part.starts_with(wanted.bytes()));
  };
  if (!p[0].is_sequence(SequenceType::tuple)) return Value::boolean(matches(p[0]));
  for (const Value& wanted : p[0].sequence().items) {
    if (matches(wanted)) return Value::boolean(true);
  }
  return Value::boolean(false);
}

template <bool Suffix>
Value remove_affix(Run& run, const Value& self, Arguments arguments) {
  const Parameters p(run, Suffix ? "removesuffix" : "removeprefix", std::move(arguments), {"affix"}, 1);
  const std::string affix = p.text(0, "");
  std::string_view text = view(self);
  if (Suffix && text.ends_with(affix)) text.remove_suffix(affix.size());
  if (!Suffix && text.starts_with(affix)) text.remove_prefix(affix.size());
  return like(run, self, text);
}

Value replace(Run& run, const Value& self, Arguments arguments) {
  const Parameters p(run, "replace", std::move(arguments), {"old", "new", "count"}, 2);
  return replace_text(run, self, p.text(0, ""), p.text(1, ""), p.integer(2, -1));
}

Value join(Run& run, const Value& self, Arguments arguments) {
  const Parameters p(run, "join", std::move(arguments), {"iterable"}, 1);
  return join_text(run, self.bytes(), items_of(run, p[0]), true);
}

// Splits without a separator, with at most `limit` cuts; the uncut rest keeps its white space on the far
// side.
std::vector<std::string_view> split_blank(std::string_view text, int64_t limit, bool from_right) {
  std::vector<std::string_view> words = split_words(text);
  if (limit < 0 || words.size() <= static_cast<size_t>(limit)) return words;
  const auto cuts = static_cast<size_t>(limit);
  if (from_right) {
    const std::string_view last = words[words.size() - cuts - 1];
    const auto kept = static_cast<size_t>(last.data() + last.size() - text.data());
    words.erase(words.begin(), words.end() - static_cast<std::ptrdiff_t>(cuts));
    words.insert(words.begin(), text.substr(0, kept));
    return words;
  }
  const auto begin = static_cast<size_t>(words[cuts].data() - text.data());
  words.resize(cuts);
  words.push_back(text.substr(begin));
  return words;
}

std::vector<std::string_view> split_at(Run& run, std::string_view text, std::string_view separator,
                                       int64_t limit, bool from_right) {
  std::vector<size_t> cuts;
  const auto more = [&] { return limit < 0 || static_cast<int64_t>(cuts.size()) < limit; };
  if (from_right) {
    std::string_view head = text;
    for (size_t at = 0; more() && (at = find_last_text(run, head, separator)) != std::string::npos;) {
      cuts.push_back(at);
      head = head.substr(0, at);
    }
    std::reverse(cuts.begin(), cuts.end());
  } else {
    for (size_t at = 0; more() && (at = find_text(run, text, separator, at)) != std::string::npos;) {
      cuts.push_back(at);
      at += separator.size();
    }
  }
  std::vector<std::string_view> parts;
  size_t begin = 0;
  for (const size_t cut : cuts) {
    parts.push_back(text.substr(begin, cut - begin));
    begin = cut + separator.size();
  }
  parts.push_back(text.substr(begin));
  return parts;
}

Value text_list(Run& run, const Value& self, const std::vector<std::string_view>& parts) {
  Values items;
  items.reserve(parts.size());
  for (const std::string_view part : parts) items.push_back(like(run, self, part));
  return run.list(std::move(items));
}

template <bool FromRight>
Value split(Run& run, const Value& self, Arguments arguments) {
  const Parameters p(run, FromRight ? "rsplit" : "split", std::move(arguments), {"sep", "maxsplit"});
  const int64_t limit = p.integer(1, -1);
  run.spend(static_cast<int64_t>(self.bytes().size() / 16));
  if (p.none(0)) return text_list(run, self, split_blank(self.bytes(), limit, FromRight));
  const std::string separator = p.text(0, "");
  if (separator.empty()) run.fail("empty separator");
  return text_list(run, self, split_at(run, self.bytes(), separator, limit, FromRight));
}

Value splitlines(Run& run, const Value& self, Arguments arguments) {
  const Parameters p(run, "splitlines", std::move(arguments), {"keepends"});
  run.spend(static_cast<int64_t>(self.bytes().size() / 16));
  return text_list(run, self, split_lines(self.bytes(), p.integer(0, 0) != 0));
}

template <bool Last>
Value partition(Run& run, const Value& self, Arguments arguments) {
  const Parameters p(run, Last ? "rpartition" : "partition", std::move(arguments), {"sep"}, 1);
  const std::string separator = p.text(0, "");
  if (separator.empty()) run.fail("empty separator");
  const std::string_view text = view(self);
  const size_t at = Last ? find_last_text(run, text, separator) : find_text(run, text, separator);
  std::string_view parts[3] = {text, {}, {}};
  if (at != std::string::npos) {
    parts[0] = text.substr(0, at);
    parts[1] = separator;
    parts[2] = text.substr(at + separator.size());
  } else if (Last) {
    std::swap(parts[0], parts[2]);
  }
  return run.tuple({like(run, self, parts[0]), like(run, self, parts[1]), like(run, self, parts[2])});
}

enum class Pad : uint8_t { left, right, both };

template <Pad Where>
Value pad(Run& run, const Value& self, Arguments arguments) {
  const Parameters p(run, "the method", std::move(arguments), {"width", "fillchar"}, 1);
  const std::string fill = p.text(1, " ");
  if (base::count_code_points(fill) != 1) run.fail("the fill character must be exactly one character long");
  const auto have = static_cast<int64_t>(self.text().length);
  const int64_t missing = std::max<int64_t>(0, p.integer(0, 0) - have);
  int64_t left = Where == Pad::left ? missing : 0;
  if (Where == Pad::both) left = missing / 2 + (missing & p.integer(0, 0) & 1);  // as CPython rounds
  Writer out(run);
  out.append(static_cast<size_t>(left), fill);
  out.append(self.bytes());
  out.append(static_cast<size_t>(missing - left), fill);
  return out.value(self.text().markup);
}

Value zfill(Run& run, const Value& self, Arguments arguments) {
  const Parameters p(run, "zfill", std::move(arguments), {"width"}, 1);
  const int64_t missing = std::max<int64_t>(0, p.integer(0, 0) - static_cast<int64_t>(self.text().length));
  std::string_view text = view(self);
  Writer out(run);
  if (text.starts_with('-') || text.starts_with('+')) {
    out.append(text.substr(0, 1));
    text.remove_prefix(1);
  }
  out.append(static_cast<size_t>(missing), "0");
  out.append(text);
  return out.value();
}

Value expandtabs(Run& run, const Value& self, Arguments arguments) {
  const Parameters p(run, "expandtabs", std::move(arguments), {"tabsize"});
  const int64_t size = p.integer(0, 8);
  Writer out(run);
  int64_t column = 0;
  for (size_t at = 0; at < self.bytes().size();) {
    const size_t begin = at;
    const char32_t c = base::next_code_point(self.bytes(), at);
    if (c == '\t') {
      const int64_t blanks = size > 0 ? size - column % size : 0;
      out.append(static_cast<size_t>(blanks), " ");
      column += blanks;
    } else {
      out.append(view(self).substr(begin, at - begin));
      column = c == '\n' || c == '\r' ? 0 : column + 1;
    }
  }
  return out.value();
}

Value format(Run& run, const Value& self, Arguments arguments) {
  return format_braces(run, self, std::move(arguments));
}

Value format_map(Run& run, const Value& self, Arguments arguments) {
  const Parameters p(run, "format_map", std::move(arguments), {"mapping"}, 1);
  return format_braces_of(run, self, p[0]);
}

struct MethodEntry {
  std::string_view name;
  Method method;
};

constexpr MethodEntry kMethods[] = {
    {"capitalize", mapped<capitalize>},
    {"casefold", mapped<case_fold>},
    {"center", pad<Pad::both>},
    {"count", count},
    {"endswith", affix<true>},
    {"expandtabs", expandtabs},
    {"find", find_method_of<false, false>},
    {"format", format},
    {"format_map", format_map},
    {"index", find_method_of<false, true>},
    {"isalnum", all_are<letter_or_digit>},
    {"isalpha", all_are<is_letter>},
    {"isascii", all_or_none_are<is_ascii>},
    {"isdecimal", all_are<is_decimal>},
    {"isdigit", all_are<is_digit>},
    {"isidentifier", isidentifier},
    {"islower", case_is<is_lower, is_upper>},
    {"isnumeric", all_are<is_numeric>},
    {"isprintable", all_or_none_are<is_printable>},
    {"isspace", all_are<is_space>},
    {"istitle", istitle},
    {"isupper", case_is<is_upper, is_lower>},
    {"join", join},
    {"ljust", pad<Pad::right>},
    {"lower", mapped<to_lower>},
    {"lstrip", strip_method<Side::left>},
    {"partition", partition<false>},
    {"removeprefix", remove_affix<false>},
    {"removesuffix", remove_affix<true>},
    {"replace", replace},
    {"rfind", find_method_of<true, false>},
    {"rindex", find_method_of<true, true>},
    {"rjust", pad<Pad::left>},
    {"rpartition", partition<true>},
    {"rsplit", split<true>},
    {"rstrip", strip_method<Side::right>},
    {"split", split<false>},
    {"splitlines", splitlines},
    {"startswith", affix<false>},
    {"strip", strip_method<Side::both>},
    {"swapcase", mapped<swap_case>},
    {"title", mapped<title_case>},
    {"upper", mapped<to_upper>},
    {"zfill", zfill},
};

}  // namespace

Method find_text_method(std::string_view name) {
  for (const MethodEntry& entry : kMethods) {
    if (entry.name == name) return entry.method;
  }
  return nullptr;
}

bool is_refused_text_method(std::string_view name) {
  return name == "encode" || name == "maketrans" || name == "translate";
}

}  // namespace trl::text::jinja
