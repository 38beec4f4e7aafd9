// A source of rows. It is read once from its start, row by row; rewind() starts over. exclusive.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json.h"
#include "data/source/row.h"
#include "data/source/row_files.h"

namespace trl::data {

class Source {
 public:
  virtual ~Source() = default;
  bool next_text(RowText& text);  // false: the end
  bool next(Row& row);            // the same, parsed
  void rewind();
  virtual const std::string& name() const = 0;

 protected:
  virtual bool read_text(RowText& text) = 0;
  virtual void start_over() = 0;

 private:
  int64_t read_ = 0;  // rows, which gives each its number in the outermost source
};

std::unique_ptr<Source> open_source(const RowFile& file);
std::unique_ptr<Source> open_file_source(const std::string& path);  // every path of find_files
// format: "jsonl", "json", "csv" or "text".
std::unique_ptr<Source> open_memory_source(std::string_view format, std::shared_ptr<const std::string> bytes,
                                           std::string name);
std::unique_ptr<Source> open_memory_source(std::string_view format, std::string bytes, std::string name);

// Sources one after another; each is opened when the previous one is at its end. columns: the columns that
// are read; empty: all.
struct SourcePart {
  std::function<std::unique_ptr<Source>()> open;
  std::vector<std::string> columns;
};
std::unique_ptr<Source> chain_sources(std::vector<SourcePart> parts, std::string name);

// A host's rows: next fills the row and returns true, or false at the end; it may throw.
struct CallbackRows {
  std::function<bool(base::Json& row)> next;
  std::function<void()> rewind;
};
std::unique_ptr<Source> open_callback_source(CallbackRows rows);

}  // namespace trl::data
