// Cutting CSV text into cells: quotes, line ends, where a row begins, across the edges of the buffer.
#include "io/csv.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "support/error_of.h"

namespace trl::io {
namespace {

// Each row as line:cell|cell; a missing cell is ~.
std::vector<std::string> csv_rows(std::string bytes, char delimiter = ',') {
  CsvRows rows(open_memory_stream(std::move(bytes), "f"), delimiter);
  std::vector<std::string> out;
  for (CsvRows::Cells row; rows.next(row);) {
    std::string text = std::to_string(row.line) + ":";
    for (const CsvRows::Cell& cell : row.cells) text += (cell.missing ? "~" : cell.text) + "|";
    out.push_back(text);
  }
  return out;
}

using Rows = std::vector<std::string>;

TEST(Csv, CellsAndLines) {
  EXPECT_EQ(csv_rows(""), Rows{});
  EXPECT_EQ(csv_rows("\n\r\n \n"), Rows{});
  EXPECT_EQ(csv_rows("a,b"), Rows{"1:a|b|"});
  EXPECT_EQ(csv_rows("a,\"\",\n,\n"), (Rows{"1:a||~|", "2:~|~|"}));
  EXPECT_EQ(csv_rows("a\rb\r\nc\n\nd"), (Rows{"1:a|", "1:b|", "2:c|", "4:d|"}));
  EXPECT_EQ(csv_rows("\"a\r\nb\"\"c\",d\n\"e\"\n"), (Rows{"1:a\r\nb\"c|d|", "3:e|"}));
  EXPECT_EQ(csv_rows("a\tb,c\n", '\t'), Rows{"1:a|b,c|"});
  EXPECT_EQ(csv_rows(" a , b \n"), Rows{"1: a | b |"});
  EXPECT_EQ(csv_rows("5\" pipe,\"x\"\n"), Rows{"1:5\" pipe|x|"});
  EXPECT_EQ(csv_rows("\xEF\xBB\xBF\"a\"\n"), Rows{"1:a|"});
}

TEST(Csv, RowsAcrossTheBuffer) {
  std::string bytes;
  Rows want;
  int64_t line = 1;
  for (size_t i = 0; i < 300; ++i) {
    const std::string text(i * 7 % 1500, 'x');
    bytes += "\"" + text + "\n\"\"\"," + std::to_string(i) + "\r\n";
    want.push_back(std::to_string(line) + ":" + text + "\n\"|" + std::to_string(i) + "|");
    line += 2;
  }
  EXPECT_EQ(csv_rows(bytes), want);
}

TEST(Csv, WhatIsRefused) {
  const auto error = [](std::string bytes) { return test::error_of([&] { csv_rows(bytes); }); };
  EXPECT_EQ(error("a\n\nb,\"c\nd"),
            std::pair(Status::format,
                      std::string("f:3: the file ends inside a quoted cell of the row that begins here")));
  EXPECT_EQ(error("a\n\"b\nc\" d\n").second,
            "f:3: text after the quote that ends a cell; a quote inside a quoted cell is written twice");
  EXPECT_EQ(error(std::string("a\nb\0", 4)).second, "f:2: a NUL byte: this is not CSV text");
}

}  // namespace
}  // namespace trl::io
