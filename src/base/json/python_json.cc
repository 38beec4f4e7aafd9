// JSON as Python reads it: with NaN and infinities, and integers of any size.
#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "base/error.h"
#include "base/json/json.h"

namespace trl::base {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

constexpr char kMark = '\x7F';
// A string of marks ends with the letter of what it stands for; the shortest, for NaN, has no other mark.
constexpr std::tuple<std::string_view, char, double> kNonfinite[] = {
    {"NaN", kMark, std::numeric_limits<double>::quiet_NaN()},
    {"Infinity", '+', std::numeric_limits<double>::infinity()},
    {"-Infinity", '-', -std::numeric_limits<double>::infinity()}};

// A number or a word for one, at the beginning of a text.
struct NumberText {
  size_t size = 0;  // 0: there is none
  char letter = 0;  // 0: it is finite
};

// Returns the size of the number of JSON with which the text begins; 0: there is none.
size_t json_number_size(std::string_view text) {
  size_t at = text.starts_with('-') ? 1 : 0;
  const auto digits = [&] {
    const size_t begin = at;
    while (at < text.size() && is_digit(text[at])) ++at;
    return at - begin;
  };
  const bool zero = text.substr(at).starts_with('0');
  if (const size_t whole = digits(); whole == 0 || (zero && whole > 1)) return 0;
  if (text.substr(at).starts_with('.') && (++at, digits() == 0)) return 0;
  if (at == text.size() || (text[at] != 'e' && text[at] != 'E')) return at;
  ++at;
  if (at < text.size() && (text[at] == '-' || text[at] == '+')) ++at;
  return digits() == 0 ? 0 : at;
}

NumberText number_at(std::string_view text, bool keeps_integers) {
  for (const auto& [word, letter, value] : kNonfinite)
    if (text.starts_with(word)) return {word.size(), letter};
  const std::string_view number = text.substr(0, json_number_size(text));
  if (number.empty()) return {};
  const bool whole = number.find_first_not_of("-0123456789") == number.npos;
  if ((whole && keeps_integers) || Json::accept(number)) return {number.size(), 0};
  return {number.size(), number.starts_with('-') ? '-' : '+'};
}

// Replaces NaN, infinities and numbers beyond float64 outside strings, except for integers if they are kept,
// by a string of marks of the same length, which keeps positions.
std::string mark_nonfinite(std::string_view text, bool keeps_integers) {
  std::string out(text);
  JsonNesting nesting;
  for (size_t at = 0; (at = nesting.next_event(text, at)) < text.size(); ++at) {
    nesting.feed(text[at]);
    if (nesting.in_string) continue;
    const NumberText found = number_at(text.substr(at), keeps_integers);
    if (found.size == 0) continue;
    if (found.letter != 0) {
      std::fill_n(out.begin() + static_cast<std::ptrdiff_t>(at), found.size, kMark);
      out[at + found.size - 2] = found.letter;
      out[at] = out[at + found.size - 1] = '"';
    }
    at += found.size - 1;
  }
  return out;
}

// Returns false if a mark is a key.
bool restore_nonfinite(Json& json) {
  if (json.is_object()) {
    for (const auto& [key, value] : json.items())
      if (key.starts_with(kMark)) return false;
  }
  if (json.is_structured()) return std::ranges::all_of(json, restore_nonfinite);
  if (!json.is_string() || !json.get_ref<const std::string&>().starts_with(kMark)) return true;
  const char mark = json.get_ref<const std::string&>().back();
  for (const auto& [word, letter, value] : kNonfinite)
    if (letter == mark) json = value;
  return true;
}

using Parse = Json (*)(std::string_view text, std::string_view origin, int64_t first_line,
                       int64_t first_column);

// keeps_integers: parse() knows those beyond 64 bits.
Json parse_with_nonfinite(Parse parse, bool keeps_integers, std::string_view text, std::string_view origin,
                          int64_t first_line, int64_t first_column) {
  try {
    return parse(text, origin, first_line, first_column);
  } catch (const Error&) {
    const std::string marked = mark_nonfinite(text, keeps_integers);
    const bool has_marks = text.find(kMark) != text.npos || text.find("\\u007") != text.npos;
    if (marked == text || has_marks) throw;
    Json json = parse(marked, origin, first_line, first_column);
    if (!restore_nonfinite(json)) throw;
    return json;
  }
}

// Returns whether there may be an integer beyond 64 bits: it has a run of at least 19 digits, so one of every
// 19 positions is in it.
bool has_long_number(std::string_view text) {
  constexpr size_t kRun = 19;
  for (size_t at = kRun - 1; at < text.size(); at += kRun) {
    if (!is_digit(text[at])) continue;
    size_t begin = at, end = at;
    while (begin > 0 && is_digit(text[begin - 1])) --begin;
    while (end < text.size() && is_digit(text[end])) ++end;
    if (end - begin >= kRun) return true;
    at = end - 1;
  }
  return false;
}

// Parses like Json::parse, except for integers beyond 64 bits, which Json::parse turns into a float64.
class ExactBuilder final : public nlohmann::json_sax<Json> {
 public:
  Json take() { return std::move(root_); }
  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(value); }
  bool number_unsigned(number_unsigned_t value) override { return put(value); }
  bool number_float(number_float_t value, const string_t& text) override {
    // The digits decide: a search for the decimal point would not help, because the parser writes the
    // locale's.
    if (text.find_first_not_of("-0123456789") != std::string::npos) return put(value);
    return put(Json::binary({text.begin(), text.end()}));
  }
  bool string(string_t& value) override { return put(std::move(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool key(string_t& value) override {
    key_ = std::move(value);
    return true;
  }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  Json& slot() {
    if (open_.empty()) return root_;
    if (open_.back()->is_object()) return (*open_.back())[key_];
    open_.back()->push_back(nullptr);
    return open_.back()->back();
  }
  bool put(Json value) {
    slot() = std::move(value);
    return true;
  }
  bool open(Json empty) {
    Json& place = slot();
    place = std::move(empty);
    open_.push_back(&place);
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  Json root_;
  std::vector<Json*> open_;  // a value does not move while one inside it is open
  std::string key_;
};

Json parse_with_large_integers(std::string_view text, std::string_view origin, int64_t first_line,
                               int64_t first_column) {
  Json json = parse_json(text, origin, first_line, first_column);
  if (!has_long_number(text)) return json;
  ExactBuilder builder;
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  return Json::sax_parse(text.begin(), text.end(), &builder) ? builder.take() : json;
}

}  // namespace

Json parse_python_json(std::string_view text, std::string_view origin, int64_t first_line,
                       int64_t first_column) {
  return parse_with_nonfinite(parse_json, false, text, origin, first_line, first_column);
}

Json parse_exact_json(std::string_view text, std::string_view origin, int64_t first_line,
                      int64_t first_column) {
  return parse_with_nonfinite(parse_with_large_integers, true, text, origin, first_line, first_column);
}

std::optional<std::string> large_integer(const Json& value) {
  if (!value.is_binary()) return std::nullopt;
  return std::string(value.get_binary().begin(), value.get_binary().end());
}

namespace {

bool is_nonfinite(const Json& value) {
  return value.is_number_float() && !std::isfinite(value.get<double>());
}

// Returns whether a value is one that Json::dump writes differently.
bool holds_inexact(const Json& value) {
  return value.is_binary() || is_nonfinite(value) ||
         (value.is_structured() && std::ranges::any_of(value, holds_inexact));
}

void append_exact(std::string& out, const Json& value) {
  if (!holds_inexact(value)) {
    out += value.dump();
  } else if (is_nonfinite(value)) {
    const double number = value.get<double>();
    out += std::isnan(number) ? "NaN" : number < 0 ? "-Infinity" : "Infinity";
  } else if (const auto digits = large_integer(value)) {
    out += *digits;
  } else {
    out += value.is_object() ? '{' : '[';
    for (auto item = value.begin(); item != value.end(); ++item) {
      if (item != value.begin()) out += ',';
      if (value.is_object()) {
        append_json_string(out, item.key());
        out += ':';
      }
      append_exact(out, *item);
    }
    out += value.is_object() ? '}' : ']';
  }
}

}  // namespace

std::string exact_text(const Json& value) {
  std::string out;
  append_exact(out, value);
  return out;
}

}  // namespace trl::base
