#include "base/json/json.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/files/files.h"
#include "base/json/unique_json.h"
#include "base/text/polled_text.h"
#include "base/text/utf8.h"

namespace trl::base {

namespace {

// Cuts nlohmann's text, "[json.exception.parse_error.101] parse error at line 1, column 9: syntax error while
// ...".
std::string plain_reason(std::string_view what) {
  const size_t colon = what.find(": ");
  return std::string(colon == std::string_view::npos ? what : what.substr(colon + 2));
}

// A text in what it was read from.
struct Origin {
  std::string_view text;
  std::string_view name;
  int64_t first_line;
  int64_t first_column;
  [[noreturn]] void fail_at(size_t byte, std::string_view reason) const {
    const std::string_view before = text.substr(0, byte);
    const size_t newline = before.rfind('\n');
    const int64_t column = newline == std::string_view::npos
                               ? first_column + static_cast<int64_t>(before.size())
                               : static_cast<int64_t>(before.size() - newline);
    const Place place{std::string(name), first_line + std::ranges::count(before, '\n'), column};
    fail(Status::format, "{}: {}", place, reason);
  }
};

// read: makes a value of the text, as nlohmann's parser does.
template <typename Read>
auto parse_by(std::string_view text, std::string_view name, int64_t first_line, int64_t first_column,
              const Read& read) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  const Origin origin{text, name, first_line, first_column};
  if (const size_t deep = find_deeper(text, kMaxJsonDepth); deep != std::string_view::npos)
    origin.fail_at(deep, fmt::format("nested deeper than {} levels", kMaxJsonDepth));
  try {
    return read(PolledText::begin(text), PolledText::end(text));
  } catch (const nlohmann::json::parse_error& error) {
    origin.fail_at(error.byte > 0 ? error.byte - 1 : 0, "not valid JSON: " + plain_reason(error.what()));
  } catch (const nlohmann::json::exception& error) {  // a number that no double holds
    const std::string reason = plain_reason(error.what());
    const size_t quote = reason.find('\'');
    const std::string number =
        quote == std::string::npos ? std::string() : reason.substr(quote + 1, reason.rfind('\'') - quote - 1);
    const size_t at = number.empty() ? std::string_view::npos : text.find(number);
    origin.fail_at(at == std::string_view::npos ? 0 : at, "a number is too large: " + number);
  }
}

template <typename Value>
Value parse_as(std::string_view text, std::string_view name, int64_t first_line, int64_t first_column) {
  return parse_by(text, name, first_line, first_column,
                  [](PolledText begin, PolledText end) { return Value::parse(begin, end); });
}

// Makes a value of what nlohmann's parser reads.
class UniqueNames {
 public:
  explicit UniqueNames(std::string_view origin) : origin_(origin) {}
  Json take() { return std::move(root_); }

  bool null() { return put(nullptr); }
  bool boolean(bool value) { return put(value); }
  bool number_integer(int64_t value) { return put(value); }
  bool number_unsigned(uint64_t value) { return put(value); }
  bool number_float(double value, const std::string&) { return put(value); }
  bool string(std::string& value) { return put(std::move(value)); }
  bool binary(Json::binary_t&) { return false; }  // JSON has none
  bool start_array(size_t) {
    open_.push_back({&place(), {}});
    *open_.back().value = Json::array();
    return true;
  }
  bool start_object(size_t) {
    open_.push_back({&place(), {}});
    *open_.back().value = Json::object();
    return true;
  }
  bool key(std::string& name) {
    std::set<std::string, std::less<>>& names = open_.back().names;
    if (names.contains(name)) refuse(name, "the name is there twice in one object; give it once");
    if (names.size() == kMostJsonNames)
      refuse(name, fmt::format("the object has more than {} names", kMostJsonNames));
    names.insert(name);
    // Appended, since the object has no such name.
    open_.back().value->get_ref<Json::object_t&>().emplace_back(std::move(name), Json());
    return true;
  }
  bool end_array() { return end(); }
  bool end_object() { return end(); }
  template <class Exception>
  bool parse_error(size_t, const std::string&, const Exception& error) {
    throw error;
  }

 private:
  struct Open {
    Json* value;
    std::set<std::string, std::less<>> names;
  };
  // Returns the place of the next value.
  Json& place() {
    if (open_.empty()) return root_;
    Json& around = *open_.back().value;
    if (around.is_object()) return around.get_ref<Json::object_t&>().back().second;
    return around.get_ref<Json::array_t&>().emplace_back();
  }
  template <class Value>
  bool put(Value&& value) {
    place() = Json(std::forward<Value>(value));
    return true;
  }
  bool end() {
    open_.pop_back();
    return true;
  }
  [[noreturn]] void refuse(const std::string& name, std::string_view why) const {
    std::string path;
    for (size_t i = 0; i + 1 < open_.size(); ++i)
      if (open_[i].value->is_object()) path += open_[i].value->get_ref<Json::object_t&>().back().first + ".";
    path = shortened(one_line(path + name));
    throw Error(Status::format, fmt::format("{}: {}: {}", origin_, path, why), path);
  }
  static std::string shortened(std::string text) {
    constexpr size_t kMost = 80;
    size_t end = std::min(text.size(), kMost);
    while (end < text.size() && end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
    return end < text.size() ? text.substr(0, end) + "..." : text;
  }

  const std::string_view origin_;
  Json root_;
  std::vector<Open> open_;
};

// Returns nonzero if one of the eight bytes is this one.
uint64_t has_byte(uint64_t word, char byte) {
  constexpr uint64_t kOnes = 0x0101010101010101u;
  const uint64_t zero = word ^ (kOnes * static_cast<unsigned char>(byte));
  return (zero - kOnes) & ~zero & (kOnes << 7);
}

// Returns the first quote, backslash or line break from `at` on: the characters that matter inside a string.
size_t string_event(std::string_view text, size_t at) {
  for (; at + sizeof(uint64_t) <= text.size(); at += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, text.data() + at, sizeof word);
    if ((has_byte(word, '"') | has_byte(word, '\\') | has_byte(word, '\n')) != 0) break;
  }
  while (at < text.size() && text[at] != '"' && text[at] != '\\' && text[at] != '\n') ++at;
  return at;
}

}  // namespace

Json parse_json(std::string_view text, std::string_view origin, int64_t first_line, int64_t first_column) {
  return parse_as<Json>(text, origin, first_line, first_column);
}

Json parse_unique_json(std::string_view text, std::string_view origin) {
  return parse_by(text, origin, 1, 1, [&](PolledText begin, PolledText end) {
    UniqueNames names(origin);
    Json::sax_parse(begin, end, &names);
    return names.take();
  });
}

Json read_json_file(const std::string& path) { return parse_json(read_file(path), path); }

Json read_json_file(const NamedFiles& files, std::string_view name) {
  return parse_json(files.read(name), files.place(name));
}

SortedJson read_sorted_json_file(const std::string& path) {
  return parse_as<SortedJson>(read_file(path), path, 1, 1);
}

void append_json_string(std::string& out, std::string_view utf8) {
  constexpr std::string_view kShort = "btnvfr";  // for 8 to 13; \\v is not in JSON
  out += '"';
  size_t plain = 0;
  for (size_t i = 0; i < utf8.size(); ++i) {
    const auto byte = static_cast<unsigned char>(utf8[i]);
    if (byte >= 0x20 && byte != '"' && byte != '\\') continue;
    out.append(utf8.substr(plain, i - plain));
    plain = i + 1;
    if (byte >= 0x20)
      out += {'\\', utf8[i]};
    else if (byte >= 8 && byte <= 13 && byte != 11)
      out += {'\\', kShort[byte - 8]};
    else
      out += fmt::format("\\u{:04x}", byte);
  }
  out.append(utf8.substr(plain));
  out += '"';
}

std::string json_type(const Json& value) {
  if (value.is_array()) return "list";
  return value.is_number() || value.is_binary() ? "number" : value.type_name();
}

size_t JsonNesting::next_event(std::string_view text, size_t at) const {
  return in_string && !escaped ? string_event(text, at) : at;
}

size_t find_deeper(std::string_view json, int limit) {
  JsonNesting nesting;
  for (size_t at = 0; (at = nesting.next_event(json, at)) < json.size(); ++at) {
    nesting.feed(json[at]);
    if (nesting.depth > limit) return at;
  }
  return std::string_view::npos;
}

}  // namespace trl::base
