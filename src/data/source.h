// Where rows come from. A source is read once from its start, row by row; rewind() starts over. exclusive.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/json.h"
#include "data/row.h"

namespace trl::data {

class Source {
 public:
  virtual ~Source() = default;
  virtual bool next_text(RowText& text) = 0;  // false: the end
  virtual void rewind() = 0;
  virtual const std::string& name() const = 0;
  bool next(Row& row);  // the same, parsed
};

std::unique_ptr<Source> open_file_source(const std::string& path);  // JSONL or a JSON array; plain, .gz, .zst
// format: "jsonl" or "json"; the bytes are copied.
std::unique_ptr<Source> open_memory_source(std::string_view format, std::string bytes, std::string name);

// A host's rows: next fills the row and returns true, or false at the end; it may throw.
struct CallbackRows {
  std::function<bool(base::Json& row)> next;
  std::function<void()> rewind;
};
std::unique_ptr<Source> open_callback_source(CallbackRows rows);

}  // namespace trl::data
