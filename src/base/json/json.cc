#include "base/json/json.h"

#include <cstdint>
#include <cstring>

#include "base/files/files.h"
#include "base/json/parse_by.h"
#include "base/text/utf8.h"

namespace trl::base {

namespace {

template <typename Value>
Value parse_as(std::string_view text, std::string_view name, int64_t first_line, int64_t first_column) {
  return parse_by(text, name, first_line, first_column,
                  [](PolledText begin, PolledText end) { return Value::parse(begin, end); });
}

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
