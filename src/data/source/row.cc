// Every row that is parsed here is an object whose strings are valid UTF-8 and whose depth is bounded,
// whatever its source.
#include "data/source/row.h"

#include "base/error.h"
#include "data/row/columns.h"
#include "io/jsonl.h"

namespace trl::data {

Place RowText::where() const { return {std::string(file), line, 0, row, line == 0 || in_array ? index : 0}; }

Row parse_row(const RowText& text) {
  Row row;
  row.where = text.where();
  try {
    const std::string origin = text.line == 0 ? row.where.text() : std::string(text.file);
    io::check_utf8(text.json, {origin, text.line, text.column});
    row.value = base::parse_exact_json(text.json, origin, text.line, text.column);
  } catch (const Error& error) {
    const Place& at = error.place();
    throw error.at(text.line == 0 ? row.where : row.where.in_line(at.line, at.column));
  }
  if (!row.value.is_object())
    fail(Status::format, "{}: a {} instead of a row (an object)", row.where, base::json_type(row.value));
  if (text.columns != nullptr) select_columns(row, *text.columns);
  row.bytes = text.json.size();
  row.untyped = text.untyped;
  return row;
}

}  // namespace trl::data
