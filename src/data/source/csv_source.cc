// CSV with a header: the names of the columns, and text in every cell, or null if the cell is empty or
// absent.
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "base/text/utf8.h"
#include "data/source/formats.h"
#include "io/csv.h"
#include "io/jsonl.h"

namespace trl::data {

namespace {

class CsvSource final : public Source {
 public:
  CsvSource(std::unique_ptr<io::ByteStream> stream, char delimiter) : rows_(std::move(stream), delimiter) {}

  bool next_text(RowText& text) override {
    if (names_.empty() && !read_names()) return false;
    if (!rows_.next(row_)) return false;
    if (row_.cells.size() > names_.size()) {
      fail(Status::format, "{}:{}: the row has {} cells, but the header names {} columns", name(), row_.line,
           row_.cells.size(), names_.size());
    }
    text.json.clear();
    for (size_t i = 0; i < names_.size(); ++i) {
      text.json += i == 0 ? '{' : ',';
      text.json += names_[i];
      text.json += ':';
      if (i >= row_.cells.size() || row_.cells[i].missing) {
        text.json += "null";
        continue;
      }
      check(row_.cells[i], i);
      base::append_json_string(text.json, row_.cells[i].text);
    }
    text.json += '}';
    text = {std::move(text.json), name(), row_.line, 1, ++index_};
    text.untyped = true;
    text.short_row = row_.cells.size() < names_.size();
    return true;
  }
  void rewind() override {
    rows_.rewind();
    names_.clear();
    index_ = 0;
  }
  const std::string& name() const override { return rows_.name(); }

 private:
  bool read_names() {
    if (!rows_.next(row_)) return false;
    std::unordered_set<std::string_view> seen;
    for (size_t i = 0; i < row_.cells.size(); ++i) {
      io::CsvRows::Cell& cell = row_.cells[i];
      check(cell, i);
      if (cell.text.empty())
        cell.text = fmt::format("Unnamed: {}", i);  // pandas' name for it, and so datasets'
      if (!seen.insert(cell.text).second) {
        fail(Status::format, "{}:{}: the header names column '{}' twice", name(), row_.line, cell.text);
      }
      base::append_json_string(names_.emplace_back(), cell.text);
    }
    return true;
  }
  void check(const io::CsvRows::Cell& cell, size_t i) const {
    if (base::find_invalid_utf8(cell.text) == base::kValid) return;
    fail(Status::format, "{}:{}: invalid UTF-8 in {}", name(), row_.line,
         names_.size() > i ? "column " + names_[i] : fmt::format("cell {}", i + 1));
  }

  io::CsvRows rows_;
  io::CsvRows::Cells row_;
  std::vector<std::string> names_;  // as JSON; empty: the header was not read yet
  int64_t index_ = 0;
};

}  // namespace

std::unique_ptr<Source> csv_source(std::unique_ptr<io::ByteStream> stream, char delimiter) {
  return std::make_unique<CsvSource>(std::move(stream), delimiter);
}

}  // namespace trl::data
