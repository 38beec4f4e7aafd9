// Holds one piece of a byte stream at a time, for code that cuts it into rows.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "io/stream.h"

namespace trl::io {

class Window {
 public:
  explicit Window(std::unique_ptr<ByteStream> stream)
      : stream_(std::move(stream)), buffer_(std::make_unique_for_overwrite<char[]>(kBytes)) {}

  // Reads more if everything was consumed; true: the stream is at its end.
  bool at_end() {
    if (begin_ < end_) return false;
    offset_ += static_cast<int64_t>(end_);
    begin_ = 0;
    end_ = stream_->read(buffer_.get(), kBytes);
    return end_ == 0;
  }
  std::string_view ahead() const { return {buffer_.get() + begin_, end_ - begin_}; }
  char front() const { return buffer_[begin_]; }
  void consume(size_t count) { begin_ += count; }
  int64_t offset() const { return offset_ + static_cast<int64_t>(begin_); }  // position of the next byte
  void skip_mark();  // a byte order mark, at the start of the stream
  void rewind() {
    stream_->rewind();
    moved_to(0);
  }
  void moved_to(int64_t offset) {  // the stream was moved
    begin_ = end_ = 0;
    offset_ = offset;
  }
  const std::string& name() const { return stream_->name(); }

 private:
  static constexpr size_t kBytes = size_t{1} << 16;
  std::unique_ptr<ByteStream> stream_;
  std::unique_ptr<char[]> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
  int64_t offset_ = 0;  // position of the buffer's first byte
};

}  // namespace trl::io
