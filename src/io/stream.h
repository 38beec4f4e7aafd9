// Byte streams: a file or a buffer, decompressed (gzip, zstd) as it is read. The first bytes determine the
// compression, not the name. Memory is bounded for any input length.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace trl::io {

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // Reads up to size bytes; 0: the end. Throws Error(io) if reading fails, Error(format) if a compressed
  // stream is damaged or ends early.
  virtual size_t read(char* out, size_t size) = 0;
  virtual void rewind() = 0;
  virtual const std::string& name() const = 0;  // for messages
};

// Identifies a file and its version, to notice when it was replaced or changed.
struct FileStamp {
  uint64_t device = 0;
  uint64_t inode = 0;
  int64_t size = 0;
  int64_t changed = 0;  // nanoseconds since 1970
  bool operator==(const FileStamp&) const = default;
};
FileStamp file_stamp(const std::string& path);  // throws not_found, io
// Returns whether path is a pipe, terminal or other device, whose bytes can be read only once.
bool is_read_once(const std::string& path);

// A stream whose bytes can be read from any position.
class SeekableStream : public ByteStream {
 public:
  virtual void seek(int64_t offset) = 0;
  virtual FileStamp stamp() const = 0;  // the current one; for a buffer only the size
};

enum class Compression : uint8_t { none, gzip, zstd };
// Determines the compression by the first bytes; raw is rewound. Throws Error(format) if they are missing and
// the name demands them.
Compression compression_of(ByteStream& raw);

// Opens without decoding. A file that changes while it is being read is Error(io). For a file that can be
// read only once, it waits for a writer and for its output, both of which can be interrupted; the stream can
// be rewound after its first few bytes, as long as no more of it was read.
std::unique_ptr<SeekableStream> open_raw_file(const std::string& path);  // throws not_found, io (a directory)
std::unique_ptr<SeekableStream> open_raw_memory(std::shared_ptr<const std::string> bytes, std::string name);
// Decodes a stream.
std::unique_ptr<ByteStream> decode(std::unique_ptr<ByteStream> raw);
std::unique_ptr<ByteStream> open_file_stream(const std::string& path);
std::unique_ptr<ByteStream> open_memory_stream(std::string bytes, std::string name);

// Holds one piece of a byte stream at a time, for code that cuts it into rows.
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
