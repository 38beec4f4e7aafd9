// Every row that is parsed here is an object whose strings are valid UTF-8 and whose depth is bounded,
// whatever its source.
#include "data/source/row.h"

#include "base/error.h"
#include "data/row/columns.h"
#include "io/jsonl.h"

namespace trl::data {

std::string RowText::where() const {
  if (line == 0) return file.empty() ? fmt::format("row {}", index) : fmt::format("{} (row {})", file, index);
  return in_array ? fmt::format("{}:{} (row {})", file, line, index) : fmt::format("{}:{}", file, line);
}

Row parse_row(const RowText& text) {
  Row row;
  row.where = text.where();
  const std::string_view origin = text.line == 0 ? row.where : text.file;
  io::check_utf8(text.json, origin, text.line, text.column);
  row.value = base::parse_exact_json(text.json, origin, text.line, text.column);
  if (!row.value.is_object())
    fail(Status::format, "{}: a {} instead of a row (an object)", row.where, base::json_type(row.value));
  if (text.columns != nullptr) select_columns(row, *text.columns);
  row.bytes = text.json.size();
  row.untyped = text.untyped;
  return row;
}

}  // namespace trl::data
