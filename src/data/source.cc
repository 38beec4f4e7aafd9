// Sources over JSON text (files, buffers) and over a host's callback.
#include "data/source.h"

#include <array>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/utf8.h"
#include "io/jsonl.h"

namespace trl::data {

namespace {

constexpr std::string_view kRead = "JSON Lines or one JSON array of objects, plain, gzip or zstd, is read";

// Extensions of files that are no JSON, for a better message than a syntax error in binary data.
constexpr std::array<std::string_view, 16> kForeign = {".parquet", ".arrow", ".csv", ".tsv", ".txt", ".xlsx",
                                                       ".feather", ".zip",   ".tar", ".bz2", ".xz",  ".lz4",
                                                       ".orc",     ".db",    ".sql", ".pkl"};
constexpr std::array<std::string_view, 5> kForeignMagic = {"PAR1", "ARROW1", "PK\x03\x04", "BZh",
                                                           "\xFD"
                                                           "7zXZ"};

void refuse_foreign(const std::string& path) {
  for (const std::string_view extension : kForeign) {
    if (path.ends_with(extension))
      fail(Status::unsupported, "{}: {} files are not read; {}", path, extension, kRead);
  }
  const std::unique_ptr<io::ByteStream> stream = io::open_file_stream(path);
  char start[8];
  const std::string_view bytes(start, stream->read(start, sizeof start));
  for (const std::string_view magic : kForeignMagic) {
    if (bytes.starts_with(magic))
      fail(Status::unsupported, "{}: not a JSON file (it begins as {} does); {}", path,
           magic == "PAR1" ? "Parquet" : "a binary format", kRead);
  }
}

class JsonSource final : public Source {
 public:
  explicit JsonSource(std::unique_ptr<io::ByteStream> stream) : rows_(std::move(stream)) {}

  bool next_text(RowText& text) override {
    io::JsonRows::Text cut;
    cut.bytes = std::move(text.json);  // its room
    if (!rows_.next(cut)) return false;
    text = {std::move(cut.bytes), name(), cut.place.line, cut.place.column(), ++index_, rows_.is_array()};
    return true;
  }
  void rewind() override {
    rows_.rewind();
    index_ = 0;
  }
  const std::string& name() const override { return rows_.name(); }

 private:
  io::JsonRows rows_;
  int64_t index_ = 0;
};

// A host's values come from outside as a file's do.
void check_value(const base::Json& value, const std::string& where, int depth) {
  if (depth > io::kMaxJsonDepth)
    fail(Status::format, "{}: nested deeper than {} levels", where, io::kMaxJsonDepth);
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

  bool next_text(RowText& text) override {
    base::Json row = base::Json::object();
    if (!rows_.next(row)) return false;
    text = {};
    text.index = ++index_;
    check_value(row, text.where(), 0);
    text.json = row.dump();
    return true;
  }
  void rewind() override {
    rows_.rewind();
    index_ = 0;
  }
  const std::string& name() const override { return name_; }

 private:
  const CallbackRows rows_;
  const std::string name_ = "dataset";
  int64_t index_ = 0;
};

}  // namespace

bool Source::next(Row& row) {
  RowText text;
  if (!next_text(text)) return false;
  row = parse_row(text);
  return true;
}

std::unique_ptr<Source> open_file_source(const std::string& path) {
  if (base::is_directory(path))
    fail(Status::io, "{}: is a directory; give the file with the rows ({})", path, kRead);
  refuse_foreign(path);
  return std::make_unique<JsonSource>(io::open_file_stream(path));
}

std::unique_ptr<Source> open_memory_source(std::string_view format, std::string bytes, std::string name) {
  if (format != "jsonl" && format != "json") {
    fail(Status::invalid_argument, "format '{}' of a dataset in memory: jsonl or json is accepted", format);
  }
  return std::make_unique<JsonSource>(io::open_memory_stream(std::move(bytes), std::move(name)));
}

std::unique_ptr<Source> open_callback_source(CallbackRows rows) {
  return std::make_unique<CallbackSource>(std::move(rows));
}

}  // namespace trl::data
