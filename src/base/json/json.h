// JSON as the project uses it: key order is kept, errors name the origin, line and column.
#pragma once
#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/files/named_files.h"

// Two of the library's own members without memory: its destructor allocates, so as not to be recursive, and
// would end the process; values here are at most kMaxJsonDepth deep. Its constructor from a list loses what
// it has made when it throws.
#define TRL_JSON_WITHOUT_MEMORY(of)                                                                        \
  template <>                                                                                              \
  inline void nlohmann::of::json_value::destroy(value_t t) {                                               \
    if (t == value_t::object)                                                                              \
      delete object;                                                                                       \
    else if (t == value_t::array)                                                                          \
      delete array;                                                                                        \
    else if (t == value_t::string)                                                                         \
      delete string;                                                                                       \
    else if (t == value_t::binary)                                                                         \
      delete binary;                                                                                       \
  }                                                                                                        \
  template <>                                                                                              \
  inline nlohmann::of::basic_json(initializer_list_t init, bool type_deduction, value_t manual_type)       \
      : basic_json(nullptr) {                                                                              \
    const bool pairs =                                                                                     \
        std::all_of(init.begin(), init.end(), [](const nlohmann::detail::json_ref<basic_json>& element) {  \
          return element->is_array() && element->size() == 2 && (*element)[0].is_string();                 \
        });                                                                                                \
    if (!type_deduction && manual_type == value_t::object && !pairs)                                       \
      throw nlohmann::detail::type_error::create(301, "cannot create object from initializer list", this); \
    const bool is_map = pairs && (type_deduction || manual_type == value_t::object);                       \
    basic_json made(is_map ? value_t::object : value_t::array);                                            \
    for (const auto& element : init) {                                                                     \
      basic_json value = element.moved_or_copied();                                                        \
      if (is_map)                                                                                          \
        made.m_value.object->emplace(std::move(*value[0].m_value.string), std::move(value[1]));            \
      else                                                                                                 \
        made.m_value.array->push_back(std::move(value));                                                   \
    }                                                                                                      \
    swap(made);                                                                                            \
  }
TRL_JSON_WITHOUT_MEMORY(ordered_json)
TRL_JSON_WITHOUT_MEMORY(json)
#undef TRL_JSON_WITHOUT_MEMORY

namespace trl::base {

using Json = nlohmann::ordered_json;
inline constexpr int kMaxJsonDepth = 128;

// origin: file name or other name for messages; first_line, first_column: the position in it at which the
// text begins. Throws Error(format): "<origin>:<line>:<column>: ...", also if the text is nested deeper than
// kMaxJsonDepth, because parsed values are walked recursively. A leading byte order mark is skipped.
Json parse_json(std::string_view text, std::string_view origin, int64_t first_line = 1,
                int64_t first_column = 1);
// Parses like parse_json(); NaN, Infinity and -Infinity are numbers too, as Python's json writes and reads
// them.
Json parse_python_json(std::string_view text, std::string_view origin, int64_t first_line = 1,
                       int64_t first_column = 1);
// Parses likewise, but an integer beyond 64 bits keeps its digits (large_integer); the other functions turn
// it into a float64.
Json parse_exact_json(std::string_view text, std::string_view origin, int64_t first_line = 1,
                      int64_t first_column = 1);
std::optional<std::string> large_integer(const Json& value);  // its digits, with a minus if negative
std::string exact_text(const Json& value);                    // the text that parse_exact_json reads
Json read_json_file(const std::string& path);
Json read_json_file(const NamedFiles& files, std::string_view name);
void append_json_string(std::string& out, std::string_view utf8);  // with its quotes
std::string json_type(const Json& value);  // "string", "number", "boolean", "null", "list", "object"

// Tracks brackets of JSON outside strings, as far as they can be recognised in text that may not be JSON at
// all.
struct JsonNesting {
  int depth = 0;
  bool in_string = false;
  bool escaped = false;
  void feed(char byte) {
    if (in_string) {
      if (escaped)
        escaped = false;
      else if (byte == '\\')
        escaped = true;
      else if (byte == '"')
        in_string = false;
    } else if (byte == '"') {
      in_string = true;
    } else if (byte == '{' || byte == '[') {
      ++depth;
    } else if (byte == '}' || byte == ']') {
      --depth;
    }
  }
  // Returns the position of the next byte that feed() or a reader of lines must see.
  size_t next_event(std::string_view text, size_t at) const;
};

// Returns the position of the first bracket that is nested deeper than `limit`; npos: none.
size_t find_deeper(std::string_view json, int limit);

// JSON for objects with very many names: a Json searches all its names for each new one.
using SortedJson = nlohmann::json;
SortedJson read_sorted_json_file(const std::string& path);  // throws the same errors as read_json_file

}  // namespace trl::base
