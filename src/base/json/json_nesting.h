// Tracks brackets of JSON outside strings, as far as they can be recognised in text that may not be JSON at
// all.
#pragma once
#include <cstddef>
#include <string_view>

namespace trl::base {

struct JsonNesting {
  int depth = 0;
  bool in_string = false;
  bool escaped = false;
  void feed(char byte) {
    if (in_string) {
      if (escaped) {
        escaped = false;
      } else if (byte == '\\') {
        escaped = true;
      } else if (byte == '"') {
        in_string = false;
      }
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

}  // namespace trl::base
