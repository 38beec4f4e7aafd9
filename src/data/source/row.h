// One row: as it was read, and parsed.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json.h"
#include "base/place.h"

namespace trl::data {

struct Row {
  base::Json value;      // an object: column -> value
  Place where;           // "file.jsonl:12", "file.json:40 (row 12)" or "row 12", for messages
  size_t bytes = 0;      // approximate bytes of text
  bool untyped = false;  // CSV: text represents the value that its column needs, also true or 0.5
};

// A row that is not parsed yet: parse_row may run on any thread.
struct RowText {
  std::string json;       // one JSON value
  std::string_view file;  // for messages; lives as long as the table or source
  int64_t line = 0;       // of its first byte in the file, from 1; 0: the rows have numbers only
  int64_t column = 1;     // in bytes, from 1
  int64_t index = 0;      // of the row in that file, from 1
  bool in_array = false;
  bool untyped = false;
  bool short_row = false;  // CSV: fewer cells than the header has names; the others are null
  const std::vector<std::string>* columns = nullptr;  // the columns that are read; null: all
  int64_t row = -1;                                   // of the dataset, from 0; -1: not known

  Place where() const;
};
// Throws Error(format) naming file, line and column: not valid JSON or UTF-8, nested too deep, or not an
// object.
Row parse_row(const RowText& text);

}  // namespace trl::data
