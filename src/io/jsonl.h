// JSON values one at a time from a byte stream: the lines of JSONL, or the elements of one top-level array
// (the first byte that is not blank says which). Only cut here, not parsed; depth and length are checked
// first.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/stream.h"

namespace trl::io {

inline constexpr int kMaxJsonDepth = 128;                          // nesting within one row
inline constexpr size_t kMaxRowBytes = size_t{256} * 1024 * 1024;  // text of one row

// Whether brackets outside strings are nested deeper than limit. Parsed values are walked recursively later
// on.
bool nested_deeper(std::string_view text, int limit);

class JsonRows {
 public:
  explicit JsonRows(std::unique_ptr<ByteStream> stream, size_t max_row_bytes = kMaxRowBytes);

  struct Text {
    std::string bytes;   // valid UTF-8, not blank
    int64_t line = 0;    // of its first byte, from 1
    int64_t column = 0;  // in bytes, from 1
  };
  // The next value's text; false: the end. Throws Error(format) naming name():line.
  bool next(Text& text);
  void rewind();
  const std::string& name() const { return stream_->name(); }
  bool is_array() const { return layout_ == Layout::array; }

 private:
  enum class Layout { unknown, lines, array };
  int peek();  // -1: the end
  int get();
  void skip_blank();
  void start();
  bool next_line(Text& text);
  bool next_element(Text& text);
  void append(Text& text, int byte) const;
  void check(const Text& text) const;

  std::unique_ptr<ByteStream> stream_;
  const size_t max_row_bytes_;
  std::vector<char> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
  int64_t line_ = 1;
  int64_t column_ = 1;
  Layout layout_ = Layout::unknown;
  bool closed_ = false;  // behind the array
};

}  // namespace trl::io
