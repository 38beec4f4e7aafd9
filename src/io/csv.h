// Reads CSV rows as in RFC 4180, one at a time: cells may be quoted, and quoted cells may hold line breaks. A
// quote inside a cell that is not quoted is literal, as in pandas.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/place.h"
#include "io/stream.h"

namespace trl::io {

class CsvRows {
 public:
  explicit CsvRows(std::unique_ptr<ByteStream> stream, char delimiter = ',');
  ~CsvRows();
  CsvRows(const CsvRows&) = delete;
  CsvRows& operator=(const CsvRows&) = delete;

  struct Cell {
    std::string text;
    bool missing = false;  // empty and not quoted
  };
  struct Cells {
    std::vector<Cell> cells;
    int64_t line = 0;  // line of the first byte, from 1
  };
  // Reads the next row that is not blank; false: the end. Throws Error(format) naming name():line.
  bool next(Cells& row);
  void rewind();
  const std::string& name() const { return window_.name(); }

 private:
  struct Parser;
  void feed(std::string_view piece);
  Place place(int64_t line) const { return {name(), line, 0, read_ - 1}; }

  Window window_;
  const char delimiter_;
  std::unique_ptr<Parser> parser_;
  int64_t line_ = 0;  // line of the next input; 0: nothing was read
  int64_t read_ = 0;  // rows, the header among them
};

}  // namespace trl::io
