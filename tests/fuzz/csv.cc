// Any bytes as CSV and as plain text: rows of valid JSON, or one error of the format.
#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "data/source/source.h"

namespace {

using namespace trl;

void require(bool condition) {
  if (!condition) std::abort();
}

std::vector<base::Json> rows_of(std::string_view format, const std::shared_ptr<const std::string>& bytes,
                                bool& whole) {
  std::vector<base::Json> rows;
  whole = false;
  try {
    const auto source = data::open_memory_source(format, bytes, "f");
    int64_t line = 0;
    for (data::RowText text; source->next_text(text);) {
      require(text.line >= line && text.index == static_cast<int64_t>(rows.size()) + 1);
      line = text.line;
      rows.push_back(data::parse_row(text).value);
    }
    whole = true;
  } catch (const Error& error) {
    require(error.status() == Status::format && !error.message().empty());
  }
  return rows;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::make_shared<const std::string>(reinterpret_cast<const char*>(data), size);
  bool whole = false;
  const std::vector<base::Json> rows = rows_of("csv", bytes, whole);
  for (const base::Json& row : rows) {
    require(row.size() == rows.front().size());
    for (const base::Json& cell : row) require(cell.is_string() || cell.is_null());
  }
  // Lines of text are all there is except for the line ends.
  std::string text, plain;
  for (const base::Json& row : rows_of("text", bytes, whole))
    text += row["text"].get_ref<const std::string&>();
  if (!whole || bytes->starts_with("\x1F\x8B") || bytes->starts_with("\x28\xB5")) return 0;
  std::copy_if(bytes->begin(), bytes->end(), std::back_inserter(plain),
               [](char c) { return c != '\n' && c != '\r'; });
  require(text == (plain.starts_with("\xEF\xBB\xBF") && bytes->starts_with("\xEF\xBB\xBF") ? plain.substr(3)
                                                                                           : plain));
  return 0;
}
