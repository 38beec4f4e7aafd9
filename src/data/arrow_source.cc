// Rows of an Arrow stream, which can be read once.
#include <utility>

#include "base/error.h"
#include "data/formats.h"
#include "io/arrow.h"

namespace trl::data {

namespace {

class ArrowSource final : public Source {
 public:
  ArrowSource(ArrowArrayStream* stream, std::string name) : rows_(stream), name_(std::move(name)) {}

  bool next_text(RowText& text) override {
    std::string json = std::move(text.json);  // its room
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

}  // namespace

std::unique_ptr<Source> arrow_source(ArrowArrayStream* stream, std::string name) {
  return std::make_unique<ArrowSource>(stream, std::move(name));
}

}  // namespace trl::data
