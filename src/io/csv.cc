#include "io/csv.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/text/utf8.h"
#include "io/jsonl.h"

namespace trl::io {

namespace {
bool is_blank(std::string_view line) { return line.find_first_not_of(" \t\r\n") == std::string_view::npos; }
}  // namespace

// The row under way, cut into cells as its bytes arrive. Blanks around a cell belong to it.
struct CsvRows::Parser {
  explicit Parser(char delimiter) : ends{delimiter, '\n', '\r'} {}

  enum class State {
    start,   // of a cell
    plain,   // in a cell without quotes, or after the end of one with them
    quoted,  // in a quoted cell
    quote    // after a quote in a quoted cell: it ends the cell, or stands for one with the next
  };

  void begin_cell() {
    if (count == row.cells.size()) row.cells.emplace_back();
    Cell& cell = row.cells[count++];
    cell.text.clear();
    cell.missing = true;
    state = State::start;
  }

  void begin_row(int64_t line) {
    row.line = line;
    count = bytes = 0;
    complete = false;
    begin_cell();
  }

  // Takes up to the end of the row. Returns false if text follows the quote that ends a cell.
  bool take(std::string_view piece) {
    for (size_t at = 0; at < piece.size() && !complete;) {
      Cell& cell = row.cells[count - 1];
      const bool is_quote = piece[at] == '"';
      size_t end = at;
      switch (state) {
        case State::start:
          state = is_quote ? State::quoted : State::plain;
          cell.missing = !is_quote;
          at += is_quote ? 1 : 0;
          break;
        case State::quoted:
          end = std::min(piece.find('"', at), piece.size());
          cell.text += piece.substr(at, end - at);
          at = end + 1;
          if (end < piece.size()) state = State::quote;
          break;
        case State::quote:
          if (is_quote) {
            cell.text += piece[at++];
            state = State::quoted;
          } else if (ends.find(piece[at]) != std::string::npos) {
            state = State::plain;
          } else {
            return false;
          }
          break;
        case State::plain:
          end = std::min(piece.find_first_of(ends, at), piece.size());
          cell.text += piece.substr(at, end - at);
          cell.missing = cell.missing && cell.text.empty();
          at = end + 1;
          if (end == piece.size()) break;
          if (piece[end] == ends.front())
            begin_cell();
          else
            complete = true;
          break;
      }
    }
    return true;
  }

  const std::string ends;  // of a cell: the delimiter, line ends
  State state = State::start;
  Cells row;  // its cells keep their capacity
  size_t count = 0;
  size_t bytes = 0;  // bytes of the row
  bool under_way = false;
  bool complete = false;
};

CsvRows::CsvRows(std::unique_ptr<ByteStream> stream, char delimiter)
    : window_(std::move(stream)), delimiter_(delimiter), parser_(std::make_unique<Parser>(delimiter)) {}

CsvRows::~CsvRows() = default;

void CsvRows::rewind() {
  window_.rewind();
  parser_ = std::make_unique<Parser>(delimiter_);
  line_ = 0;
  read_ = 0;
}

void CsvRows::feed(std::string_view piece) {
  if (piece.find('\0') != std::string_view::npos)
    fail(Status::format, "{}: a NUL byte: this is not CSV text", place(line_));
  parser_->bytes += piece.size();
  if (parser_->bytes > kMaxRowBytes)
    fail(Status::format, "{}: the row is longer than {} bytes", place(parser_->row.line), kMaxRowBytes);
  if (!parser_->take(piece))
    fail(Status::format,
         "{}: text after the quote that ends a cell; a quote inside a quoted cell is written twice",
         place(line_));
}

bool CsvRows::next(Cells& row) {
  Parser& parser = *parser_;
  if (line_ == 0) {
    window_.skip_mark();
    line_ = 1;
  }
  parser.under_way = parser.complete = false;
  while (!parser.complete && !window_.at_end()) {
    // Feeds up to a line's end, so that at most one row is complete and its line is known.
    const std::string_view ahead = window_.ahead();
    const std::string_view line = ahead.substr(0, ahead.find('\n'));
    const std::string_view piece = ahead.substr(0, std::min(line.find('\r'), line.size()) + 1);
    const char last = piece.back();
    if (!parser.under_way && (last == '\n' || last == '\r') && is_blank(piece)) {
      if (last == '\n') ++line_;
      window_.consume(piece.size());
      continue;
    }
    if (!std::exchange(parser.under_way, true)) parser.begin_row(line_);
    feed(piece);
    if (last == '\n') ++line_;
    window_.consume(piece.size());
  }
  if (!parser.under_way) return false;
  if (!parser.complete && parser.state == Parser::State::quoted)
    fail(Status::format, "{}: the file ends inside a quoted cell of the row that begins here",
         place(parser.row.line));
  parser.row.cells.resize(parser.count);
  std::swap(row, parser.row);
  ++read_;
  return true;
}

}  // namespace trl::io
