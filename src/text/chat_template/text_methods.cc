// Methods of str, and functions that they share with filters.
#include <algorithm>
#include <cstring>

#include "base/text/utf8.h"
#include "text/chat_template/filters.h"
#include "text/chat_template/python.h"
#include "text/chat_template/unicode.h"

namespace trl::text::jinja {

size_t find_text(Run& run, std::string_view text, std::string_view needle, size_t from) {
  if (from > text.size()) return std::string::npos;
  if (needle.empty()) return from;
  const void* found = memmem(text.data() + from, text.size() - from, needle.data(), needle.size());
  const size_t at =
      found ? static_cast<size_t>(static_cast<const char*>(found) - text.data()) : std::string::npos;
  const size_t scanned = (found ? at : text.size()) - from + needle.size();
  run.spend(1 + static_cast<int64_t>(scanned / 64));
  return at;
}

size_t find_last_text(Run& run, std::string_view text, std::string_view needle) {
  if (needle.size() <= 256) {  // rfind compares at every position, which is cheap only for a short text
    const size_t at = text.rfind(needle);
    const size_t scanned = at == std::string_view::npos ? text.size() : text.size() - at;
    run.spend(1 + static_cast<int64_t>(scanned * (1 + needle.size() / 16) / 16));
    return at;
  }
  size_t last = std::string::npos;
  for (size_t at = find_text(run, text, needle); at != std::string::npos;
       at = find_text(run, text, needle, at + 1))
    last = at;
  return last;
}

Value replace_text(Run& run, const Value& text, std::string_view from, std::string_view to, int64_t count) {
  const std::string& source = text.bytes();
  Writer out(run);
  size_t at = 0;
  int64_t left = count < 0 ? INT64_MAX : count;
  if (from.empty()) {  // between all code points
    for (; left > 0; --left) {
      out.append(to);
      if (at >= source.size()) break;
      const size_t begin = at;
      base::next_code_point(source, at);
      out.append(std::string_view(source).substr(begin, at - begin));
    }
  }
  while (!from.empty() && left-- > 0) {
    const size_t found = find_text(run, source, from, at);
    if (found == std::string::npos) break;
    out.append(std::string_view(source).substr(at, found - at));
    out.append(to);
    at = found + from.size();
  }
  out.append(std::string_view(source).substr(at));
  return out.value(text.text().markup);
}

Value join_text(Run& run, std::string_view separator, const Values& parts, bool strict) {
  Writer out(run);
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) out.append(separator);
    if (strict && !parts[i].is_text())
      run.fail("sequence item {}: expected str instance, {} found", i, type_name(parts[i]));
    write_str(out, run, parts[i]);
  }
  return out.value();
}

Value strip_text(Run& run, const Value& text, const Value& chars, int side) {
  const auto where = static_cast<Side>(side);
  if (chars.is_none()) return run.part(strip(text.bytes(), where), text.text().markup);
  if (!chars.is_text()) run.fail("strip arg must be None or str, not {}", type_name(chars));
  run.spend(static_cast<int64_t>(text.bytes().size() / 16 * (1 + chars.bytes().size() / 16)));
  return run.part(strip(text.bytes(), where, chars.bytes()), text.text().markup);
}

namespace {

std::string_view view(const Value& value) { return value.bytes(); }
Value like(Run& run, const Value& self, std::string_view bytes) {
  return run.part(bytes, self.text().markup);
}

// Returns the steps for a function that asks for properties of letters.
int64_t letter_cost(const Value& self) {
  return static_cast<int64_t>(self.bytes().size() / (self.text().ascii() ? 8 : 2));
}

template <std::string (*Map)(std::string_view)>
Value mapped(Run& run, const Value& self, const Parameters&) {
  run.spend(letter_cost(self));
  return run.mapped(self, Map(self.bytes()));
}

template <Side Where>
Value strip_method(Run& run, const Value& self, const Parameters& p) {
  return strip_text(run, self, p.value(0, Value::none()), static_cast<int>(Where));
}

template <bool (*Test)(char32_t)>
Value all_are(Run& run, const Value& self, const Parameters&) {
  run.spend(letter_cost(self));
  for (size_t at = 0; at < self.bytes().size();)
    if (!Test(base::next_code_point(self.bytes(), at))) return Value::boolean(false);
  return Value::boolean(!self.bytes().empty());
}

bool letter_or_digit(char32_t c) { return c != '_' && is_word(c); }
bool is_ascii(char32_t c) { return c < 0x80; }
// Implements islower and isupper: no letter of another case and at least one of this.
template <bool (*Wanted)(char32_t), bool (*Other)(char32_t)>
Value case_is(Run& run, const Value& self, const Parameters&) {
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
Value all_or_none_are(Run& run, const Value& self, const Parameters& p) {
  const Value all = all_are<Test>(run, self, p);
  return self.bytes().empty() ? Value::boolean(true) : all;
}

Value isidentifier(Run& run, const Value& self, const Parameters& p) {
  const Value all = all_are<goes_on_in_name>(run, self, p);
  if (self.bytes().empty()) return all;
  size_t at = 0;
  return Value::boolean(begins_name(base::next_code_point(self.bytes(), at)) && truth(all));
}

Value istitle(Run& run, const Value& self, const Parameters&) {
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
  const int64_t start = place(first, 0), end = std::min(place(first + 1, count), count);
  if (start > end) return {0, 0, true};
  return {byte_offset(text, static_cast<size_t>(start)), byte_offset(text, static_cast<size_t>(end)), false};
}

template <bool Last, bool Required>
Value find_method_of(Run& run, const Value& self, const Parameters& p) {
  const std::string_view sub = p.text(0);
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

Value count(Run& run, const Value& self, const Parameters& p) {
  const std::string_view sub = p.text(0);
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
Value affix(Run& run, const Value& self, const Parameters& p) {
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
  for (const Value& wanted : p[0].sequence().items)
    if (matches(wanted)) return Value::boolean(true);
  return Value::boolean(false);
}

template <bool Suffix>
Value remove_affix(Run& run, const Value& self, const Parameters& p) {
  const std::string_view affix = p.text(0);
  std::string_view text = view(self);
  if (Suffix && text.ends_with(affix)) text.remove_suffix(affix.size());
  if (!Suffix && text.starts_with(affix)) text.remove_prefix(affix.size());
  return like(run, self, text);
}

Value replace(Run& run, const Value& self, const Parameters& p) {
  return replace_text(run, self, p.text(0), p.text(1), p.integer(2, -1));
}

Value join(Run& run, const Value& self, const Parameters& p) {
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
    std::ranges::reverse(cuts);
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
Value split(Run& run, const Value& self, const Parameters& p) {
  const int64_t limit = p.integer(1, -1);
  run.spend(static_cast<int64_t>(self.bytes().size() / 16));
  if (p.none(0)) return text_list(run, self, split_blank(self.bytes(), limit, FromRight));
  const std::string_view separator = p.text(0);
  if (separator.empty()) run.fail("empty separator");
  return text_list(run, self, split_at(run, self.bytes(), separator, limit, FromRight));
}

Value splitlines(Run& run, const Value& self, const Parameters& p) {
  run.spend(static_cast<int64_t>(self.bytes().size() / 16));
  return text_list(run, self, split_lines(self.bytes(), p.integer(0, 0) != 0));
}

template <bool Last>
Value partition(Run& run, const Value& self, const Parameters& p) {
  const std::string_view separator = p.text(0);
  if (separator.empty()) run.fail("empty separator");
  const std::string_view text = view(self);
  const size_t at = Last ? find_last_text(run, text, separator) : find_text(run, text, separator);
  std::string_view parts[3] = {text, {}, {}};
  if (at != std::string::npos) {
    parts[0] = text.substr(0, at);
    parts[1] = text.substr(at, separator.size());
    parts[2] = text.substr(at + separator.size());
  } else if (Last) {
    std::swap(parts[0], parts[2]);
  }
  return run.tuple({like(run, self, parts[0]), like(run, self, parts[1]), like(run, self, parts[2])});
}

enum class Pad : uint8_t { left, right, both };

template <Pad Where>
Value pad(Run& run, const Value& self, const Parameters& p) {
  const std::string_view fill = p.text(1, " ");
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

Value zfill(Run& run, const Value& self, const Parameters& p) {
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

Value expandtabs(Run& run, const Value& self, const Parameters& p) {
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

Value format_map(Run& run, const Value& self, const Parameters& p) {
  return format_braces_of(run, self, p[0]);
}

constexpr Callable kMethods[] = {
    {"capitalize", mapped<capitalize>, {}, 0, "the method"},
    {"casefold", mapped<case_fold>, {}, 0, "the method"},
    {"center", pad<Pad::both>, {"width", "fillchar"}, 1, "the method"},
    {"count", count, {"sub", "start", "end"}, 1},
    {"endswith", affix<true>, {"affix", "start", "end"}, 1},
    {"expandtabs", expandtabs, {"tabsize"}},
    {"find", find_method_of<false, false>, {"sub", "start", "end"}, 1},
    {"format", format},
    {"format_map", format_map, {"mapping"}, 1},
    {"index", find_method_of<false, true>, {"sub", "start", "end"}, 1, "find"},
    {"isalnum", all_are<letter_or_digit>, {}, 0, "the method"},
    {"isalpha", all_are<is_letter>, {}, 0, "the method"},
    {"isascii", all_or_none_are<is_ascii>, {}, 0, "the method"},
    {"isdecimal", all_are<is_decimal>, {}, 0, "the method"},
    {"isdigit", all_are<is_digit>, {}, 0, "the method"},
    {"isidentifier", isidentifier, {}, 0, "the method"},
    {"islower", case_is<is_lower, is_upper>, {}, 0, "the method"},
    {"isnumeric", all_are<is_numeric>, {}, 0, "the method"},
    {"isprintable", all_or_none_are<is_printable>, {}, 0, "the method"},
    {"isspace", all_are<is_space>, {}, 0, "the method"},
    {"istitle", istitle},
    {"isupper", case_is<is_upper, is_lower>, {}, 0, "the method"},
    {"join", join, {"iterable"}, 1},
    {"ljust", pad<Pad::right>, {"width", "fillchar"}, 1, "the method"},
    {"lower", mapped<to_lower>, {}, 0, "the method"},
    {"lstrip", strip_method<Side::left>, {"chars"}, 0, "strip"},
    {"partition", partition<false>, {"sep"}, 1},
    {"removeprefix", remove_affix<false>, {"affix"}, 1},
    {"removesuffix", remove_affix<true>, {"affix"}, 1},
    {"replace", replace, {"old", "new", "count"}, 2},
    {"rfind", find_method_of<true, false>, {"sub", "start", "end"}, 1},
    {"rindex", find_method_of<true, true>, {"sub", "start", "end"}, 1, "rfind"},
    {"rjust", pad<Pad::left>, {"width", "fillchar"}, 1, "the method"},
    {"rpartition", partition<true>, {"sep"}, 1},
    {"rsplit", split<true>, {"sep", "maxsplit"}},
    {"rstrip", strip_method<Side::right>, {"chars"}, 0, "strip"},
    {"split", split<false>, {"sep", "maxsplit"}},
    {"splitlines", splitlines, {"keepends"}},
    {"startswith", affix<false>, {"affix", "start", "end"}, 1},
    {"strip", strip_method<Side::both>, {"chars"}},
    {"swapcase", mapped<swap_case>, {}, 0, "the method"},
    {"title", mapped<title_case>, {}, 0, "the method"},
    {"upper", mapped<to_upper>, {}, 0, "the method"},
    {"zfill", zfill, {"width"}, 1},
};

}  // namespace

const Callable* find_text_method(std::string_view name) { return find_named(kMethods, name); }

bool is_refused_text_method(std::string_view name) {
  return name == "encode" || name == "maketrans" || name == "translate";
}

}  // namespace trl::text::jinja
