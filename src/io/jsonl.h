// Cuts a byte stream into JSON values, one at a time: the lines of JSONL, or the elements of one top-level
// array (decided by the first byte that is not blank). The values are neither checked nor parsed.
#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/json/json.h"
#include "base/place.h"
#include "io/stream.h"

namespace trl::io {

inline constexpr size_t kMaxRowBytes = size_t{256} * 1024 * 1024;  // text of one row

// Throws Error(format) for invalid UTF-8, naming file:line:column. start: the place of the first byte.
void check_utf8(std::string_view text, const trl::Place& start);

class JsonRows {
 public:
  explicit JsonRows(std::unique_ptr<ByteStream> stream, size_t max_row_bytes = kMaxRowBytes);

  struct Place {                                                // position of a value's first byte
    int64_t offset = 0;                                         // in the stream's bytes
    int64_t line = 0;                                           // from 1
    int64_t line_start = 0;                                     // offset of that line's first byte
    int64_t column() const { return offset - line_start + 1; }  // in bytes, from 1
  };
  struct Text {
    std::string bytes;  // without blanks around it; not empty
    Place place;
  };
  // Reads the next value's text; false: the end. Throws Error(format) naming name():line.
  bool next(Text& text);
  bool skip(Place& place);  // the same without the text
  void rewind();
  // Continues after the stream was moved to this place, at which a value begins.
  void resume(const Place& place, bool in_array);
  const std::string& name() const { return window_.name(); }
  bool is_array() const { return layout_ == Layout::array; }  // known after the first value was asked for

 private:
  enum class Layout { unknown, lines, array };
  int64_t column() const { return window_.offset() - line_start_ + 1; }
  void end_line(size_t at);  // a line break at this distance
  void skip_blank();
  void start();
  void close();  // call at the bracket that ends the array
  bool cut(Place& place, std::string* bytes);
  void cut_line(const Place& place, std::string* bytes);
  void refuse_object_of_lines(base::JsonNesting nesting, char last);
  void cut_element(const Place& place, std::string* bytes);
  size_t take(size_t count, size_t length, const Place& place, std::string* bytes);
  template <typename... Args>
  [[noreturn]] void fail_here(fmt::format_string<Args...> text, Args&&... args) const;

  Window window_;
  const size_t max_row_bytes_;
  int64_t line_ = 1;
  int64_t line_start_ = 0;
  Layout layout_ = Layout::unknown;
  bool closed_ = false;  // after the array
  bool begun_ = false;   // a line was cut since the start
  int64_t cut_ = 0;      // rows since the start; -1: not known
};

}  // namespace trl::io
