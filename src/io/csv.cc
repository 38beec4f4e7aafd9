// libcsv cuts the cells; this file counts lines and handles its errors.
#include "io/csv.h"

#include <csv.h>

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include "base/error.h"
#include "base/text/utf8.h"
#include "io/jsonl.h"

namespace trl::io {

namespace {
constexpr unsigned char kStrict = CSV_STRICT | CSV_STRICT_FINI | CSV_EMPTY_IS_NULL;
bool is_blank(std::string_view line) { return line.find_first_not_of(" \t\r\n") == std::string_view::npos; }
}  // namespace

// libcsv's state with the current row. Nothing may be thrown through libcsv, which is C.
struct CsvRows::Parser {
  explicit Parser(char delimiter) {
    if (csv_init(&state, kStrict) != 0) throw std::bad_alloc();
    csv_set_delim(&state, static_cast<unsigned char>(delimiter));
    csv_set_space_func(&state, [](unsigned char) { return 0; });  // blanks around a cell belong to it
  }
  ~Parser() { csv_free(&state); }
  Parser(const Parser&) = delete;
  Parser& operator=(const Parser&) = delete;

  static void on_cell(void* text, size_t size, void* self) noexcept {
    auto& parser = *static_cast<Parser*>(self);
    try {
      if (parser.count == parser.row.cells.size()) parser.row.cells.emplace_back();
      Cell& cell = parser.row.cells[parser.count++];
      cell.missing = text == nullptr;
      cell.text.assign(static_cast<const char*>(text), size);
    } catch (...) {
      parser.thrown = std::current_exception();
    }
  }
  static void on_row(int, void* self) noexcept { static_cast<Parser*>(self)->complete = true; }

  csv_parser state;
  Cells row;  // its cells keep their capacity
  size_t count = 0;
  size_t bytes = 0;  // bytes of the row
  bool under_way = false;
  bool complete = false;
  std::exception_ptr thrown;
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
  csv_parser* state = &parser_->state;
  const auto parse = [&](size_t at, size_t size) {
    return csv_parse(state, piece.data() + at, size, Parser::on_cell, Parser::on_row, parser_.get());
  };
  if (piece.find('\0') != std::string_view::npos)
    fail(Status::format, "{}: a NUL byte: this is not CSV text", place(line_));
  parser_->bytes += piece.size();
  if (parser_->bytes > kMaxRowBytes)
    fail(Status::format, "{}: the row is longer than {} bytes", place(parser_->row.line), kMaxRowBytes);
  for (size_t at = 0; (at += parse(at, piece.size() - at)) < piece.size();) {
    if (csv_error(state) != CSV_EPARSE) throw std::bad_alloc();
    if (state->quoted != 0) {
      fail(Status::format,
           "{}: text after the quote that ends a cell; a quote inside a quoted cell is written twice",
           place(line_));
    }
    csv_set_opts(state, CSV_EMPTY_IS_NULL);
    at += parse(at, 1);
    csv_set_opts(state, kStrict);
  }
}

bool CsvRows::next(Cells& row) {
  Parser& parser = *parser_;
  if (line_ == 0) {
    window_.skip_mark();
    line_ = 1;
  }
  parser.count = parser.bytes = 0;
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
    if (!std::exchange(parser.under_way, true)) parser.row.line = line_;
    feed(piece);
    if (last == '\n') ++line_;
    window_.consume(piece.size());
  }
  if (!parser.complete && parser.under_way) {
    if (csv_fini(&parser.state, Parser::on_cell, Parser::on_row, &parser) != 0) {
      if (csv_error(&parser.state) != CSV_EPARSE) throw std::bad_alloc();
      fail(Status::format, "{}: the file ends inside a quoted cell of the row that begins here",
           place(parser.row.line));
    }
  }
  if (parser.thrown) std::rethrow_exception(parser.thrown);
  if (!parser.complete) return false;
  parser.row.cells.resize(parser.count);
  std::swap(row, parser.row);
  ++read_;
  return true;
}

}  // namespace trl::io
