// Bounds a row's length before it is parsed. The text is searched, not walked byte by byte: a file of rows is
// cut at the speed of memory.
#include "io/jsonl.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/text/utf8.h"

namespace trl::io {

namespace {

bool is_blank(char byte) { return byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n'; }

}  // namespace

void check_utf8(std::string_view text, const trl::Place& start) {
  const size_t bad = base::find_invalid_utf8(text);
  if (bad == base::kValid) return;
  const std::string_view before = text.substr(0, bad);
  const size_t newline = before.rfind('\n');
  const Place place =
      start.in_line(start.line + std::ranges::count(before, '\n'),
                    newline == std::string_view::npos ? start.column + static_cast<int64_t>(bad)
                                                      : static_cast<int64_t>(bad - newline));
  fail(Status::format, "{}: invalid UTF-8: byte 0x{:02x}", place, static_cast<unsigned char>(text[bad]));
}

JsonRows::JsonRows(std::unique_ptr<ByteStream> stream, size_t max_row_bytes)
    : window_(std::move(stream)), max_row_bytes_(max_row_bytes) {}

template <typename... Args>
void JsonRows::fail_here(fmt::format_string<Args...> text, Args&&... args) const {
  fail(Status::format, "{}: not valid JSON: {}", trl::Place{name(), line_, column(), cut_},
       fmt::format(text, std::forward<Args>(args)...));
}

void JsonRows::end_line(size_t at) {
  ++line_;
  line_start_ = window_.offset() + static_cast<int64_t>(at) + 1;
}

void JsonRows::skip_blank() {
  for (; !window_.at_end() && is_blank(window_.front()); window_.consume(1))
    if (window_.front() == '\n') end_line(0);
}

void JsonRows::rewind() {
  window_.rewind();
  line_ = 1;
  line_start_ = 0;
  layout_ = Layout::unknown;
  closed_ = false;
  begun_ = false;
  cut_ = 0;
}

void JsonRows::resume(const Place& place, bool in_array) {
  window_.moved_to(place.offset);
  line_ = place.line;
  line_start_ = place.line_start;
  layout_ = in_array ? Layout::array : Layout::lines;
  closed_ = false;
  begun_ = true;
  cut_ = -1;
}

// Distinguishes lines from an array.
void JsonRows::start() {
  window_.skip_mark();
  line_start_ = window_.offset();
  skip_blank();
  layout_ = Layout::lines;
  if (window_.at_end()) return;
  const auto first = static_cast<unsigned char>(window_.front());
  if (first >= 0x80) fail_here("begins with byte 0x{:02x}", first);
  if (first != '[') return;
  layout_ = Layout::array;
  window_.consume(1);
  skip_blank();
  if (!window_.at_end() && window_.front() == ']') close();
}

void JsonRows::close() {
  window_.consume(1);
  skip_blank();
  if (!window_.at_end()) fail_here("text after the array");
  closed_ = true;
}

// Moves over the next `count` bytes of a row that has `length` already. Returns its length then.
size_t JsonRows::take(size_t count, size_t length, const Place& place, std::string* bytes) {
  if (count > max_row_bytes_ - length)
    fail(Status::format, "{}: the row is longer than {} bytes", trl::Place{name(), place.line, 0, cut_},
         max_row_bytes_);
  if (bytes != nullptr) bytes->append(window_.ahead().substr(0, count));
  window_.consume(count);
  return length + count;
}

void JsonRows::cut_line(const Place& place, std::string* bytes) {
  const bool first = !std::exchange(begun_, true);
  base::JsonNesting nesting;
  char last = 0;  // the last byte that is not blank
  for (size_t length = 0; !window_.at_end();) {
    const std::string_view text = window_.ahead();
    const size_t newline = text.find('\n'), count = std::min(newline, text.size());
    for (size_t at = 0; first && (at = nesting.next_event(text, at)) < count; ++at) nesting.feed(text[at]);
    const size_t end = first ? text.substr(0, count).find_last_not_of(" \t\r") : std::string_view::npos;
    if (end != std::string_view::npos) last = text[end];
    length = take(count, length, place, bytes);
    if (newline == std::string_view::npos) continue;
    if (first) refuse_object_of_lines(nesting, last);
    return;
  }
}

// Refuses an object over several lines: the JSON of the file's first line is open at its end and continues in
// the next line. A next line that begins with a bracket, and does not follow a character that asks for more,
// is a new row instead.
void JsonRows::refuse_object_of_lines(base::JsonNesting nesting, char last) {
  if (nesting.depth <= 0 || nesting.in_string) return;
  const int64_t line = line_;
  skip_blank();
  const bool asks = std::string_view("{[,:").find(last) != std::string_view::npos;
  if (window_.at_end() || (window_.front() == '{' && !asks)) return;
  fail(Status::format,
       "{}: an object over several lines; rows are a list of objects, or lines of one object each",
       trl::Place{name(), line, 0, cut_});
}

void JsonRows::cut_element(const Place& place, std::string* bytes) {
  base::JsonNesting nesting;
  bool empty = true;
  for (size_t length = 0;;) {
    if (window_.at_end()) fail_here("the file ends inside the array, in the element of line {}", place.line);
    const std::string_view text = window_.ahead();
    size_t at = 0;
    char byte = 0;
    bool found = false;
    for (; (at = nesting.next_event(text, at)) < text.size(); ++at) {
      byte = text[at];
      if (byte == '\n') {
        if (nesting.in_string) {
          take(at, length, place, nullptr);
          fail_here("a line break inside a string");
        }
        end_line(at);
      }
      found = nesting.depth == 0 && !nesting.in_string && (byte == ',' || byte == ']' || byte == '}');
      if (found) break;
      nesting.feed(byte);
    }
    empty = empty && at == 0;
    length = take(at, length, place, bytes);
    if (!found) continue;
    if (byte == '}') fail_here("'}}' closes nothing");
    if (empty) fail_here("a value is expected before '{}'", byte);
    if (byte == ']') return close();
    return window_.consume(1);
  }
}

bool JsonRows::cut(Place& place, std::string* bytes) {
  if (layout_ == Layout::unknown) start();
  if (closed_) return false;
  skip_blank();
  if (layout_ == Layout::lines && window_.at_end()) return false;
  place = {window_.offset(), line_, line_start_};
  if (layout_ == Layout::lines)
    cut_line(place, bytes);
  else
    cut_element(place, bytes);
  if (cut_ >= 0) ++cut_;
  return true;
}

bool JsonRows::next(Text& text) {
  text.bytes.clear();
  if (!cut(text.place, &text.bytes)) return false;
  while (!text.bytes.empty() && is_blank(text.bytes.back())) text.bytes.pop_back();
  return true;
}

bool JsonRows::skip(Place& place) { return cut(place, nullptr); }

}  // namespace trl::io
