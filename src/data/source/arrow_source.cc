// Rows of an Arrow stream, which can be read once, and of a Parquet file.
#include <utility>

#include "base/error.h"
#include "data/source/formats.h"
#include "io/arrow.h"
#include "io/parquet.h"

namespace trl::data {

namespace {

class ArrowSource final : public Source {
 public:
  ArrowSource(ArrowArrayStream* stream, std::string name) : rows_(stream), name_(std::move(name)) {}

  bool next_text(RowText& text) override {
    std::string json = std::move(text.json);  // reuses its capacity
    if (!rows_.next(json)) return false;
    text = {};
    text.json = std::move(json);
    text.index = ++index_;
    return true;
  }
  void rewind() override {
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

  bool next_text(RowText& text) override {
    const bool found = in_file([&] { return rows_->next_text(text); });
    text.file = name_;
    return found;
  }
  void rewind() override {
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
      fail(Status::format, "{}: {}", name_, error.message());
    }
  }

  const std::string name_;
  io::ParquetFile file_;
  std::unique_ptr<ArrowSource> rows_;
};
#endif

}  // namespace

#ifdef TRL_ARROW
std::unique_ptr<Source> parquet_source(const std::string& path) {
  return std::make_unique<ParquetSource>(path);
}
#endif

std::unique_ptr<Source> arrow_source(ArrowArrayStream* stream, std::string name) {
  return std::make_unique<ArrowSource>(stream, std::move(name));
}

}  // namespace trl::data
