// Where rows come from. A source is read once from its start, row by row; rewind() starts over. exclusive.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/json.h"

namespace trl::data {

struct Row {
  base::Json value;   // an object: column -> value
  std::string where;  // "file.jsonl:12", "file.json:40 (row 12)" or "row 12", for messages
  size_t bytes = 0;   // about how much text it holds
};

class Source {
 public:
  virtual ~Source() = default;
  virtual bool next(Row& row) = 0;  // false: the end
  virtual void rewind() = 0;
  virtual std::string_view name() const = 0;
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
