// Plain text: every line is a row with the one column `text`, as in datasets' text loader: a line break, a
// carriage return or both end a line, and empty lines are rows too. CSV has a header: the names of the
// columns, and text in every cell, or null if the cell is empty or absent. An Arrow stream can be read once.
#include "data/source/formats.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "base/text/utf8.h"
#include "io/arrow.h"
#include "io/csv.h"
#include "io/jsonl.h"
#include "io/stream.h"

namespace trl::data {

namespace {

class CsvSource final : public Source {
 public:
  CsvSource(std::unique_ptr<io::ByteStream> stream, char delimiter) : rows_(std::move(stream), delimiter) {}

  bool read_text(RowText& text) override {
    if (names_.empty() && !read_names()) return false;
    if (!rows_.next(row_)) return false;
    if (row_.cells.size() > names_.size()) {
      fail(Status::format, "{}: the row has {} cells, but the header names {} columns", place(index_),
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
  void start_over() override {
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
      if (!seen.insert(cell.text).second)
        fail(Status::format, "{}: the header names column '{}' twice", place(-1), cell.text);
      base::append_json_string(names_.emplace_back(), cell.text);
    }
    return true;
  }
  void check(const io::CsvRows::Cell& cell, size_t i) const {
    if (base::find_invalid_utf8(cell.text) == base::kValid) return;
    const bool header = names_.size() <= i;
    fail(Status::format, "{}: invalid UTF-8 in {}", place(header ? -1 : index_),
         header ? fmt::format("cell {}", i + 1) : "column " + names_[i]);
  }

  Place place(int64_t row) const { return {name(), row_.line, 0, row}; }

  io::CsvRows rows_;
  io::CsvRows::Cells row_;
  std::vector<std::string> names_;  // as JSON; empty: the header was not read yet
  int64_t index_ = 0;
};

class TextSource final : public Source {
 public:
  explicit TextSource(std::unique_ptr<io::ByteStream> stream) : window_(std::move(stream)) {}

  bool read_text(RowText& text) override {
    if (line_ == 0) window_.skip_mark();
    if (window_.at_end()) return false;
    ++line_;
    read_line();
    io::check_utf8(bytes_, {name(), line_, 1, line_ - 1});
    text.json = R"({"text":)";
    base::append_json_string(text.json, bytes_);
    text.json += '}';
    text = {std::move(text.json), name(), line_, 1, line_};
    return true;
  }
  void start_over() override {
    window_.rewind();
    line_ = 0;
  }
  const std::string& name() const override { return window_.name(); }

 private:
  void read_line() {
    bytes_.clear();
    while (!window_.at_end()) {
      const std::string_view ahead = window_.ahead();
      const std::string_view line = ahead.substr(0, ahead.find('\n'));
      const size_t size = std::min(line.find('\r'), line.size());
      bytes_.append(ahead.substr(0, size));
      window_.consume(size);
      if (bytes_.size() > io::kMaxRowBytes)
        fail(Status::format, "{}: the row is longer than {} bytes", Place{name(), line_, 0, line_ - 1},
             io::kMaxRowBytes);
      if (size == ahead.size()) continue;
      const bool carriage_return = window_.front() == '\r';
      window_.consume(1);
      if (carriage_return && !window_.at_end() && window_.front() == '\n') window_.consume(1);
      return;
    }
  }

  io::Window window_;
  std::string bytes_;
  int64_t line_ = 0;
};

class ArrowSource final : public Source {
 public:
  ArrowSource(ArrowArrayStream* stream, std::string name) : rows_(stream), name_(std::move(name)) {}

  bool read_text(RowText& text) override {
    std::string json = std::move(text.json);  // reuses its capacity
    if (!rows_.next(json)) return false;
    text = {};
    text.json = std::move(json);
    text.index = ++index_;
    return true;
  }
  void start_over() override {
    if (index_ > 0) fail(Status::unsupported, "an Arrow stream can be read once");
  }
  const std::string& name() const override { return name_; }

 private:
  io::ArrowRows rows_;
  const std::string name_;
  int64_t index_ = 0;
};

#ifdef TRL_ARROW
class ParquetSource final : public Source {
 public:
  explicit ParquetSource(const std::string& path) : name_(path), file_(path) { rewind(); }

  bool read_text(RowText& text) override {
    const bool found = in_file([&] { return rows_->next_text(text); });
    text.file = name_;
    return found;
  }
  void start_over() override {
    rows_.reset();
    in_file([&] {
      ArrowArrayStream stream;
      file_.read(&stream);
      rows_ = std::make_unique<ArrowSource>(&stream, name_);
      return true;
    });
  }
  const std::string& name() const override { return name_; }

 private:
  template <class Body>
  bool in_file(Body&& body) const {
    try {
      return body();
    } catch (const Error& error) {
      if (error.message().starts_with(name_)) throw;
      Place place = error.place();
      place.file = name_;
      throw Error(Status::format, fmt::format("{}: {}", name_, error.message()), {}, 0, std::move(place));
    }
  }

  const std::string name_;
  io::ParquetFile file_;
  std::unique_ptr<ArrowSource> rows_;
};
#endif

}  // namespace

std::unique_ptr<Source> csv_source(std::unique_ptr<io::ByteStream> stream, char delimiter) {
  return std::make_unique<CsvSource>(std::move(stream), delimiter);
}

std::unique_ptr<Source> text_source(std::unique_ptr<io::ByteStream> stream) {
  return std::make_unique<TextSource>(std::move(stream));
}

#ifdef TRL_ARROW
std::unique_ptr<Source> parquet_source(const std::string& path) {
  return std::make_unique<ParquetSource>(path);
}
#endif

std::unique_ptr<Source> arrow_source(ArrowArrayStream* stream, std::string name) {
  return std::make_unique<ArrowSource>(stream, std::move(name));
}

}  // namespace trl::data
