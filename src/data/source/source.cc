// Sources over JSON text and over a host's callback, and sources that consist of sources.
#include "data/source/source.h"

#include <deque>
#include <utility>

#include "base/error.h"
#include "base/text/utf8.h"
#include "data/source/formats.h"
#include "io/jsonl.h"

namespace trl::data {

namespace {

class JsonSource final : public Source {
 public:
  explicit JsonSource(std::unique_ptr<io::ByteStream> stream) : rows_(std::move(stream)) {}

  bool read_text(RowText& text) override {
    io::JsonRows::Text cut;
    cut.bytes = std::move(text.json);  // reuses its capacity
    if (!rows_.next(cut)) return false;
    text = {std::move(cut.bytes), name(), cut.place.line, cut.place.column(), ++index_, rows_.is_array()};
    return true;
  }
  void start_over() override {
    rows_.rewind();
    index_ = 0;
  }
  const std::string& name() const override { return rows_.name(); }

 private:
  io::JsonRows rows_;
  int64_t index_ = 0;
};

// Checks a host's values, which come from outside as a file's do.
void check_value(const base::Json& value, const Place& where, int depth) {
  if (depth > base::kMaxJsonDepth)
    fail(Status::format, "{}: nested deeper than {} levels", where, base::kMaxJsonDepth);
  if (value.is_string()) {
    const size_t bad = base::find_invalid_utf8(value.get_ref<const std::string&>());
    if (bad != base::kValid) fail(Status::format, "{}: invalid UTF-8 at byte {} of a string", where, bad);
  } else if (value.is_structured()) {
    for (const base::Json& item : value) check_value(item, where, depth + 1);
  }
}

class CallbackSource final : public Source {
 public:
  explicit CallbackSource(CallbackRows rows) : rows_(std::move(rows)) {}

  bool read_text(RowText& text) override {
    base::Json row = base::Json::object();
    if (!rows_.next(row)) return false;
    text = {};
    text.index = ++index_;
    check_value(row, text.where(), 0);
    text.json = base::exact_text(row);
    return true;
  }
  void start_over() override {
    rows_.rewind();
    index_ = 0;
  }
  const std::string& name() const override { return name_; }

 private:
  const CallbackRows rows_;
  const std::string name_ = "dataset";
  int64_t index_ = 0;
};

class ChainedSource final : public Source {
 public:
  ChainedSource(std::vector<SourcePart> parts, std::string name)
      : parts_(std::move(parts)), name_(std::move(name)) {}

  bool read_text(RowText& text) override {
    for (; at_ < parts_.size(); ++at_, current_.reset()) {
      if (current_ == nullptr) current_ = parts_[at_].open();
      if (!current_->next_text(text)) continue;
      remember_file(text);
      if (!parts_[at_].columns.empty()) text.columns = &parts_[at_].columns;
      return true;
    }
    return false;
  }
  void start_over() override {
    current_.reset();
    at_ = 0;
  }
  const std::string& name() const override { return name_; }

 private:
  // Keeps the name of a file beyond its source.
  void remember_file(RowText& text) {
    if (files_.empty() || files_.back() != text.file) files_.emplace_back(text.file);
    text.file = files_.back();
  }

  const std::vector<SourcePart> parts_;
  const std::string name_;
  std::unique_ptr<Source> current_;
  std::deque<std::string> files_;  // which never move
  size_t at_ = 0;
};

std::unique_ptr<Source> source_of(FileFormat format, std::unique_ptr<io::ByteStream> stream) {
  switch (format) {
    case FileFormat::csv:
    case FileFormat::tsv:
      return csv_source(std::move(stream), format == FileFormat::csv ? ',' : '\t');
    case FileFormat::text:
      return text_source(std::move(stream));
    case FileFormat::json:
    case FileFormat::parquet:
      break;
  }
  return json_source(std::move(stream));
}

}  // namespace

bool Source::next_text(RowText& text) {
  try {
    if (!read_text(text)) return false;
  } catch (const Error& error) {
    if (error.place().row < 0) throw;
    Place place = error.place();
    place.row = read_;
    throw error.at(std::move(place));
  }
  text.row = read_++;
  return true;
}

void Source::rewind() {
  start_over();
  read_ = 0;
}

bool Source::next(Row& row) {
  RowText text;
  if (!next_text(text)) return false;
  row = parse_row(text);
  return true;
}

std::unique_ptr<Source> json_source(std::unique_ptr<io::ByteStream> stream) {
  return std::make_unique<JsonSource>(std::move(stream));
}

std::unique_ptr<Source> open_source(const RowFile& file) {
#ifdef TRL_ARROW
  if (file.format == FileFormat::parquet) return parquet_source(file.path);
#endif
  return source_of(file.format, io::open_file_stream(file.path));
}

std::unique_ptr<Source> open_file_source(const std::string& path) {
  const std::vector<RowFile> files = find_files(path);
  if (files.size() == 1) return open_source(files.front());
  std::vector<SourcePart> parts;
  for (const RowFile& file : files) parts.push_back({[file] { return open_source(file); }, {}});
  return chain_sources(std::move(parts), path);
}

FileFormat memory_format(std::string_view name) {
  if (name == "jsonl" || name == "json") return FileFormat::json;
  if (name == "csv") return FileFormat::csv;
  if (name == "text") return FileFormat::text;
  fail(Status::invalid_argument, "format '{}' of a dataset in memory: jsonl, json, csv or text is accepted",
       name);
}

std::unique_ptr<Source> open_memory_source(std::string_view format, std::shared_ptr<const std::string> bytes,
                                           std::string name) {
  return source_of(memory_format(format), io::decode(io::open_raw_memory(std::move(bytes), std::move(name))));
}

std::unique_ptr<Source> open_memory_source(std::string_view format, std::string bytes, std::string name) {
  return open_memory_source(format, std::make_shared<const std::string>(std::move(bytes)), std::move(name));
}

std::unique_ptr<Source> chain_sources(std::vector<SourcePart> parts, std::string name) {
  return std::make_unique<ChainedSource>(std::move(parts), std::move(name));
}

std::unique_ptr<Source> open_callback_source(CallbackRows rows) {
  return std::make_unique<CallbackSource>(std::move(rows));
}

}  // namespace trl::data
