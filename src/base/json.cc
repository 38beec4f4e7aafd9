#include "base/json.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/files.h"
#include "base/json_nesting.h"

namespace trl::base {

namespace {
// nlohmann's text is "[json.exception.parse_error.101] parse error at line 1, column 9: syntax error while
// ...".
std::string plain_reason(std::string_view what) {
  const size_t colon = what.find(": ");
  return std::string(colon == std::string_view::npos ? what : what.substr(colon + 2));
}

// A place in a text for messages.
struct Place {
  std::string_view text;
  std::string_view origin;
  int64_t first_line;
  int64_t first_column;
  [[noreturn]] void fail_at(size_t byte, std::string_view reason) const {
    const std::string_view before = text.substr(0, byte);
    const int64_t line = first_line + std::count(before.begin(), before.end(), '\n');
    const size_t newline = before.rfind('\n');
    const int64_t column = newline == std::string_view::npos
                               ? first_column + static_cast<int64_t>(before.size())
                               : static_cast<int64_t>(before.size() - newline);
    fail(Status::format, "{}:{}:{}: {}", origin, line, column, reason);
  }
};
}  // namespace

Json parse_json(std::string_view text, std::string_view origin, int64_t first_line, int64_t first_column) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  const Place place{text, origin, first_line, first_column};
  if (const size_t deep = find_deeper(text, kMaxJsonDepth); deep != std::string_view::npos)
    place.fail_at(deep, fmt::format("nested deeper than {} levels", kMaxJsonDepth));
  try {
    return Json::parse(text.begin(), text.end());
  } catch (const nlohmann::json::parse_error& error) {
    place.fail_at(error.byte > 0 ? error.byte - 1 : 0, "not valid JSON: " + plain_reason(error.what()));
  } catch (const nlohmann::json::exception& error) {  // a number that no double holds
    const std::string reason = plain_reason(error.what());
    const size_t quote = reason.find('\'');
    const std::string number =
        quote == std::string::npos ? std::string() : reason.substr(quote + 1, reason.rfind('\'') - quote - 1);
    const size_t at = number.empty() ? std::string_view::npos : text.find(number);
    fail(Status::format, "{}:{}:{}: a number is too large: {}", origin, first_line,
         first_column + static_cast<int64_t>(at == std::string_view::npos ? 0 : at), number);
  }
}

namespace {

constexpr char kMark = '\x7F';
constexpr std::pair<std::string_view, double> kNonfinite[] = {
    {"NaN", std::numeric_limits<double>::quiet_NaN()},
    {"Infinity", std::numeric_limits<double>::infinity()},
    {"-Infinity", -std::numeric_limits<double>::infinity()}};

// What is not finite outside strings becomes a string of marks of the same length, so that places stay.
std::string mark_nonfinite(std::string_view text) {
  std::string out(text);
  JsonNesting nesting;
  for (size_t at = 0; (at = nesting.next_event(text, at)) < text.size(); ++at) {
    nesting.feed(text[at]);
    if (nesting.in_string) continue;
    for (const auto& [word, value] : kNonfinite) {
      if (!text.substr(at).starts_with(word)) continue;
      std::fill_n(out.begin() + static_cast<std::ptrdiff_t>(at), word.size(), kMark);
      out[at] = out[at + word.size() - 1] = '"';
      at += word.size() - 1;
      break;
    }
  }
  return out;
}

// false: a mark is a key.
bool restore_nonfinite(Json& json) {
  if (json.is_object()) {
    for (const auto& [key, value] : json.items()) {
      if (key.starts_with(kMark)) return false;
    }
  }
  if (json.is_structured()) return std::all_of(json.begin(), json.end(), restore_nonfinite);
  if (!json.is_string() || !json.get_ref<const std::string&>().starts_with(kMark)) return true;
  const size_t size = json.get_ref<const std::string&>().size() + 2;
  for (const auto& [word, value] : kNonfinite) {
    if (word.size() == size) json = value;
  }
  return true;
}

}  // namespace

Json parse_python_json(std::string_view text, std::string_view origin, int64_t first_line,
                       int64_t first_column) {
  try {
    return parse_json(text, origin, first_line, first_column);
  } catch (const Error&) {
    const std::string marked = mark_nonfinite(text);
    const bool has_marks = text.find(kMark) != text.npos || text.find("\\u007") != text.npos;
    if (marked == text || has_marks) throw;
    Json json = parse_json(marked, origin, first_line, first_column);
    if (!restore_nonfinite(json)) throw;
    return json;
  }
}

namespace {

// Stops at the first integer that Json would hold as a float64.
struct LargeInteger final : nlohmann::json_sax<Json> {
  std::string found;
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t& text) override {
    // Not by its point, which the parser writes as the locale has it.
    if (text.find_first_not_of("-0123456789") == std::string::npos) found = text;
    return found.empty();
  }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return true; }
  bool key(string_t&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }
};

}  // namespace

Json parse_exact_json(std::string_view text, std::string_view origin) {
  Json json = parse_json(text, origin);
  LargeInteger large;
  Json::sax_parse(text.begin(), text.end(), &large);
  if (!large.found.empty()) {
    fail(Status::format, "{}: {} is beyond 64 bits; give it as a string, or as a float", origin, large.found);
  }
  return json;
}

Json read_json_file(const std::string& path) { return parse_json(read_file(path), path); }

void append_json_string(std::string& out, std::string_view utf8) {
  constexpr std::string_view kShort = "btnvfr";  // of 8 to 13; \\v is none of JSON's
  out += '"';
  size_t plain = 0;
  for (size_t i = 0; i < utf8.size(); ++i) {
    const auto byte = static_cast<unsigned char>(utf8[i]);
    if (byte >= 0x20 && byte != '"' && byte != '\\') continue;
    out.append(utf8.substr(plain, i - plain));
    plain = i + 1;
    if (byte >= 0x20) {
      out += {'\\', utf8[i]};
    } else if (byte >= 8 && byte <= 13 && byte != 11) {
      out += {'\\', kShort[byte - 8]};
    } else {
      out += fmt::format("\\u{:04x}", byte);
    }
  }
  out.append(utf8.substr(plain));
  out += '"';
}

std::string json_type(const Json& value) {
  if (value.is_array()) return "list";
  return value.is_number() ? "number" : value.type_name();
}

}  // namespace trl::base
