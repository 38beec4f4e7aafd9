// See jsonl.h. Everything that depends on the input's size is bounded before it is parsed: a row's length and
// depth.
#include "io/jsonl.h"

#include <utility>

#include "base/error.h"
#include "base/utf8.h"

namespace trl::io {

namespace {

bool is_blank(int byte) { return byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n'; }

// Brackets outside strings, as far as they can be told from text that may not be JSON at all.
struct Nesting {
  int depth = 0;
  bool in_string = false;
  bool escaped = false;
  void feed(int byte) {
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
};

}  // namespace

bool nested_deeper(std::string_view text, int limit) {
  Nesting nesting;
  for (const char byte : text) {
    nesting.feed(byte);
    if (nesting.depth > limit) return true;
  }
  return false;
}

JsonRows::JsonRows(std::unique_ptr<ByteStream> stream, size_t max_row_bytes)
    : stream_(std::move(stream)), max_row_bytes_(max_row_bytes), buffer_(size_t{1} << 16) {}

int JsonRows::peek() {
  if (begin_ == end_) {
    begin_ = 0;
    end_ = stream_->read(buffer_.data(), buffer_.size());
    if (end_ == 0) return -1;
  }
  return static_cast<unsigned char>(buffer_[begin_]);
}

int JsonRows::get() {
  const int byte = peek();
  if (byte < 0) return byte;
  ++begin_;
  if (byte == '\n') {
    ++line_;
    column_ = 1;
  } else {
    ++column_;
  }
  return byte;
}

void JsonRows::skip_blank() {
  while (is_blank(peek())) get();
}

void JsonRows::rewind() {
  stream_->rewind();
  begin_ = end_ = 0;
  line_ = column_ = 1;
  layout_ = Layout::unknown;
  closed_ = false;
}

// Skips the byte order mark and tells lines from an array.
void JsonRows::start() {
  if (peek() == 0xEF) {
    std::string mark;
    while (mark.size() < 3 && peek() >= 0) mark.push_back(static_cast<char>(get()));
    if (mark != "\xEF\xBB\xBF") fail(Status::format, "{}:1:1: not JSON: begins with byte 0xef", name());
    column_ = 1;
  }
  skip_blank();
  layout_ = Layout::lines;
  if (peek() == '[') {
    get();
    skip_blank();
    layout_ = Layout::array;
    if (peek() == ']') {
      get();
      closed_ = true;
    }
  }
}

void JsonRows::append(Text& text, int byte) const {
  if (text.bytes.size() >= max_row_bytes_) {
    fail(Status::format, "{}:{}: the row is longer than {} bytes", name(), text.line, max_row_bytes_);
  }
  text.bytes.push_back(static_cast<char>(byte));
}

void JsonRows::check(const Text& text) const {
  const size_t bad = base::find_invalid_utf8(text.bytes);
  if (bad != base::kValid) {
    int64_t line = text.line;
    size_t column = static_cast<size_t>(text.column) + bad;
    for (size_t i = 0; i < bad; ++i) {
      if (text.bytes[i] != '\n') continue;
      ++line;
      column = bad - i;
    }
    fail(Status::format, "{}:{}:{}: invalid UTF-8: byte 0x{:02x}", name(), line, column,
         static_cast<unsigned char>(text.bytes[bad]));
  }
  if (nested_deeper(text.bytes, kMaxJsonDepth)) {
    fail(Status::format, "{}:{}: nested deeper than {} levels", name(), text.line, kMaxJsonDepth);
  }
}

bool JsonRows::next_line(Text& text) {
  skip_blank();
  text = {{}, line_, column_};
  while (peek() >= 0 && peek() != '\n') append(text, get());
  while (!text.bytes.empty() && is_blank(text.bytes.back())) text.bytes.pop_back();
  return !text.bytes.empty();
}

bool JsonRows::next_element(Text& text) {
  skip_blank();
  text = {{}, line_, column_};
  Nesting nesting;
  for (;;) {
    const int byte = peek();
    if (byte < 0) {
      fail(Status::format,
           "{}:{}:{}: not valid JSON: the file ends inside the array, in the element of line {}", name(),
           line_, column_, text.line);
    }
    if (byte == '\n' && nesting.in_string) {
      fail(Status::format, "{}:{}:{}: not valid JSON: a line break inside a string", name(), line_, column_);
    }
    if (nesting.depth == 0 && !nesting.in_string && (byte == ',' || byte == ']')) break;
    nesting.feed(byte);
    append(text, get());
  }
  while (!text.bytes.empty() && is_blank(text.bytes.back())) text.bytes.pop_back();
  if (text.bytes.empty()) {
    fail(Status::format, "{}:{}:{}: not valid JSON: a value is expected before '{}'", name(), line_, column_,
         static_cast<char>(peek()));
  }
  if (get() == ']') {
    skip_blank();
    if (peek() >= 0)
      fail(Status::format, "{}:{}:{}: not valid JSON: text after the array", name(), line_, column_);
    closed_ = true;
  }
  return true;
}

bool JsonRows::next(Text& text) {
  if (layout_ == Layout::unknown) start();
  if (closed_) return false;
  const bool found = layout_ == Layout::lines ? next_line(text) : next_element(text);
  if (found) check(text);
  return found;
}

}  // namespace trl::io
