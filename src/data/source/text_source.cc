// Plain text: every line is a row with the one column `text`, as in datasets' text loader: a line break,
// a carriage return or both end a line, and empty lines are rows too.
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "data/source/formats.h"
#include "io/jsonl.h"
#include "io/window.h"

namespace trl::data {

namespace {

class TextSource final : public Source {
 public:
  explicit TextSource(std::unique_ptr<io::ByteStream> stream) : window_(std::move(stream)) {}

  bool next_text(RowText& text) override {
    if (line_ == 0) window_.skip_mark();
    if (window_.at_end()) return false;
    ++line_;
    read_line();
    io::check_utf8(bytes_, name(), line_, 1);
    text.json = R"({"text":)";
    base::append_json_string(text.json, bytes_);
    text.json += '}';
    text = {std::move(text.json), name(), line_, 1, line_};
    return true;
  }
  void rewind() override {
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
        fail(Status::format, "{}:{}: the row is longer than {} bytes", name(), line_, io::kMaxRowBytes);
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

}  // namespace

std::unique_ptr<Source> text_source(std::unique_ptr<io::ByteStream> stream) {
  return std::make_unique<TextSource>(std::move(stream));
}

}  // namespace trl::data
