// Raw bytes below (file or buffer), one decoder above them if the magic bytes of gzip or zstd are there.
#include "io/stream.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files/files.h"
#include "base/interrupt.h"

namespace trl::io {

namespace {

constexpr size_t kBufferBytes = size_t{1} << 16;

// Fails for the reason in errno.
[[noreturn]] void fail_to_open(const std::string& path) {
  fail(errno == ENOENT || errno == ENOTDIR ? Status::not_found : Status::io, "{}: cannot be opened: {}",
       Place::in(path), base::system_reason(errno));
}

// A pipe, terminal or other device.
class PipeStream final : public SeekableStream {
 public:
  explicit PipeStream(const std::string& path)
      : path_(path), descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    // A socket, as Node gives its children.
    if (descriptor_ < 0 && errno == ENXIO && path == "/dev/stdin")
      descriptor_ = ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0);
    if (descriptor_ < 0) fail_to_open(path);
  }
  ~PipeStream() override { ::close(descriptor_); }
  PipeStream(const PipeStream&) = delete;
  PipeStream& operator=(const PipeStream&) = delete;

  size_t read(char* out, size_t size) override {
    if (at_ < start_.size()) {
      const size_t count = std::min(size, start_.size() - at_);
      std::memcpy(out, start_.data() + at_, count);
      at_ += count;
      return count;
    }
    const size_t got = wait_and_read(out, size);
    if (read_ + got <= kKeptBytes) start_.append(out, got);
    read_ += got;
    at_ = start_.size();
    return got;
  }
  void rewind() override { seek(0); }
  void seek(int64_t offset) override {
    if (offset != 0 || read_ > start_.size())
      fail(Status::io, "{}: cannot be rewound: what was read of a pipe is gone", Place::in(path_));
    at_ = 0;
  }
  FileStamp stamp() const override { return {}; }
  const std::string& name() const override { return path_; }

 private:
  static constexpr size_t kKeptBytes = 16;  // enough to determine the compression
  size_t wait_and_read(char* out, size_t size) {
    for (pollfd ready{descriptor_, POLLIN, 0};;) {
      base::poll();
      constexpr int kMilliseconds = 50;
      if (::poll(&ready, 1, kMilliseconds) <= 0) continue;
      const ssize_t got = ::read(descriptor_, out, size);
      if (got >= 0) return static_cast<size_t>(got);
      if (errno != EINTR && errno != EAGAIN)
        fail(Status::io, "{}: cannot be read: {}", Place::in(path_), base::system_reason(errno));
    }
  }

  std::string path_;
  int descriptor_;
  std::string start_;  // the first bytes, as long as nothing else was read
  size_t read_ = 0;
  size_t at_ = 0;
};

FileStamp stamp_of(const struct stat& info) {
  return {static_cast<uint64_t>(info.st_dev), static_cast<uint64_t>(info.st_ino),
          static_cast<int64_t>(info.st_size),
          static_cast<int64_t>(info.st_mtim.tv_sec) * 1000000000 + info.st_mtim.tv_nsec};
}

class FileStream final : public SeekableStream {
 public:
  explicit FileStream(const std::string& path)
      : path_(path), descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (descriptor_ < 0) fail_to_open(path);
    struct stat info {};
    if (::fstat(descriptor_, &info) == 0 && S_ISDIR(info.st_mode)) {
      ::close(descriptor_);
      fail(Status::io, "{}: is a directory, but a file is expected", Place::in(path));
    }
    opened_ = stamp_of(info);
  }
  ~FileStream() override { ::close(descriptor_); }
  FileStream(const FileStream&) = delete;
  FileStream& operator=(const FileStream&) = delete;

  size_t read(char* out, size_t size) override {
    base::poll();
    for (;;) {
      const ssize_t got = ::read(descriptor_, out, size);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail(Status::io, "{}: cannot be read: {}", Place::in(path_), base::system_reason(errno));
      if (stamp() != opened_)
        fail(Status::io, "{}: the file changed while it was being read", Place::in(path_));
      return static_cast<size_t>(got);
    }
  }
  void rewind() override { seek(0); }
  void seek(int64_t offset) override {
    if (::lseek(descriptor_, offset, SEEK_SET) < 0)
      fail(Status::io, "{}: cannot be rewound: {}", Place::in(path_), base::system_reason(errno));
  }
  FileStamp stamp() const override {
    struct stat info {};
    if (::fstat(descriptor_, &info) != 0)
      fail(Status::io, "{}: cannot be read: {}", Place::in(path_), base::system_reason(errno));
    return stamp_of(info);
  }
  const std::string& name() const override { return path_; }

 private:
  std::string path_;
  int descriptor_;
  FileStamp opened_;
};

class MemoryStream final : public SeekableStream {
 public:
  MemoryStream(std::shared_ptr<const std::string> bytes, std::string name)
      : bytes_(std::move(bytes)), name_(std::move(name)) {}
  size_t read(char* out, size_t size) override {
    base::poll();
    const size_t count = std::min(size, bytes_->size() - at_);
    std::memcpy(out, bytes_->data() + at_, count);
    at_ += count;
    return count;
  }
  void rewind() override { at_ = 0; }
  void seek(int64_t offset) override { at_ = std::min(static_cast<size_t>(offset), bytes_->size()); }
  FileStamp stamp() const override { return {0, 0, static_cast<int64_t>(bytes_->size()), 0}; }
  const std::string& name() const override { return name_; }

 private:
  std::shared_ptr<const std::string> bytes_;
  std::string name_;
  size_t at_ = 0;
};

// The part that both decoders share: the compressed bytes not yet decoded, beginning with those that were
// read for the magic.
class Input {
 public:
  explicit Input(std::unique_ptr<ByteStream> raw) : raw_(std::move(raw)), buffer_(kBufferBytes) {}
  // Returns the bytes that are ready, after reading more if necessary; empty: the end.
  std::string_view peek() {
    if (begin_ == end_) {
      begin_ = 0;
      end_ = raw_->read(buffer_.data(), buffer_.size());
    }
    return {buffer_.data() + begin_, end_ - begin_};
  }
  void consume(size_t count) { begin_ += count; }
  void rewind() {
    raw_->rewind();
    begin_ = end_ = 0;
  }
  const std::string& name() const { return raw_->name(); }

 private:
  std::unique_ptr<ByteStream> raw_;
  std::vector<char> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
};

// Decodes gzip, also several members one after the other (RFC 1952, 2.2), with zero bytes after them, as
// tapes pad files.
class GzipStream final : public ByteStream {
 public:
  explicit GzipStream(std::unique_ptr<ByteStream> raw) : input_(std::move(raw)) {
    if (inflateInit2(&state_, MAX_WBITS + 16) != Z_OK)
      fail(Status::out_of_memory, "{}: no memory for zlib", name());
  }
  ~GzipStream() override { inflateEnd(&state_); }
  GzipStream(const GzipStream&) = delete;
  GzipStream& operator=(const GzipStream&) = delete;

  size_t read(char* out, size_t size) override {
    for (;;) {
      const std::string_view bytes = input_.peek();
      if (bytes.empty()) {
        if (inside_)
          fail(Status::format, "{}: the gzip stream ends early: the file is truncated", Place::in(name()));
        return 0;
      }
      if (!inside_ && bytes.front() == '\0') {
        input_.consume(std::min(bytes.find_first_not_of('\0'), bytes.size()));
        continue;
      }
      if (!inside_) inflateReset(&state_);
      inside_ = true;
      state_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
      state_.avail_in = static_cast<uInt>(bytes.size());
      state_.next_out = reinterpret_cast<Bytef*>(out);
      state_.avail_out = static_cast<uInt>(std::min(size, kBufferBytes));
      const uInt room = state_.avail_out;
      const int result = inflate(&state_, Z_NO_FLUSH);
      input_.consume(bytes.size() - state_.avail_in);
      if (result == Z_STREAM_END) {
        inside_ = false;
      } else if (result != Z_OK && result != Z_BUF_ERROR) {
        fail(Status::format, "{}: damaged gzip stream: {}", Place::in(name()),
             state_.msg != nullptr ? state_.msg : zError(result));
      }
      if (room != state_.avail_out) return room - state_.avail_out;
    }
  }
  void rewind() override {
    input_.rewind();
    inside_ = false;
  }
  const std::string& name() const override { return input_.name(); }

 private:
  Input input_;
  z_stream state_{};
  bool inside_ = false;
};

// Decodes zstd, also several frames one after the other. The window is at most zstd's default of 128 MiB.
class ZstdStream final : public ByteStream {
 public:
  explicit ZstdStream(std::unique_ptr<ByteStream> raw)
      : input_(std::move(raw)), state_(ZSTD_createDStream()) {
    if (state_ == nullptr) fail(Status::out_of_memory, "{}: no memory for zstd", name());
  }
  ~ZstdStream() override { ZSTD_freeDStream(state_); }
  ZstdStream(const ZstdStream&) = delete;
  ZstdStream& operator=(const ZstdStream&) = delete;

  size_t read(char* out, size_t size) override {
    for (;;) {
      const std::string_view bytes = input_.peek();
      ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
      ZSTD_outBuffer decoded{out, size, 0};
      // Called at the end of the input too: already decoded bytes may not all have fitted into the last
      // call's buffer.
      const size_t result = ZSTD_decompressStream(state_, &decoded, &in);
      if (ZSTD_isError(result) != 0u)
        fail(Status::format, "{}: damaged zstd stream: {}", Place::in(name()), ZSTD_getErrorName(result));
      input_.consume(in.pos);
      if (in.pos > 0 || decoded.pos > 0) inside_ = result != 0;
      if (decoded.pos > 0) return decoded.pos;
      if (bytes.empty()) {
        if (inside_)
          fail(Status::format, "{}: the zstd stream ends early: the file is truncated", Place::in(name()));
        return 0;
      }
    }
  }
  void rewind() override {
    input_.rewind();
    ZSTD_initDStream(state_);
    inside_ = false;
  }
  const std::string& name() const override { return input_.name(); }

 private:
  Input input_;
  ZSTD_DStream* state_;
  bool inside_ = false;
};

}  // namespace

bool is_read_once(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

FileStamp file_stamp(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) fail_to_open(path);
  return stamp_of(info);
}

namespace {
// Returns whether start begins a frame, or a skippable one before it (RFC 8878, 3.1).
bool is_zstd(std::string_view start) {
  return start == "\x28\xB5\x2F\xFD" ||
         (start.size() == 4 && (start[0] & 0xF0) == 0x50 && start.substr(1) == "\x2A\x4D\x18");
}
}  // namespace

Compression compression_of(ByteStream& raw) {
  char magic[4];
  size_t count = 0;
  while (count < sizeof magic) {
    const size_t got = raw.read(magic + count, sizeof magic - count);
    if (got == 0) break;
    count += got;
  }
  raw.rewind();
  const std::string_view start(magic, count);
  if (start.starts_with("\x1F\x8B")) return Compression::gzip;
  const std::string& name = raw.name();
  if (count < sizeof magic && (name.ends_with(".gz") || name.ends_with(".zst")))
    fail(Status::format, "{}: the compressed stream ends early: the file is truncated", Place::in(name));
  return is_zstd(start) ? Compression::zstd : Compression::none;
}

std::unique_ptr<SeekableStream> open_raw_file(const std::string& path) {
  if (is_read_once(path)) return std::make_unique<PipeStream>(path);
  return std::make_unique<FileStream>(path);
}

std::unique_ptr<SeekableStream> open_raw_memory(std::shared_ptr<const std::string> bytes, std::string name) {
  return std::make_unique<MemoryStream>(std::move(bytes), std::move(name));
}

std::unique_ptr<ByteStream> decode(std::unique_ptr<ByteStream> raw) {
  switch (compression_of(*raw)) {
    case Compression::gzip:
      return std::make_unique<GzipStream>(std::move(raw));
    case Compression::zstd:
      return std::make_unique<ZstdStream>(std::move(raw));
    case Compression::none:
      break;
  }
  return raw;
}

std::unique_ptr<ByteStream> open_file_stream(const std::string& path) { return decode(open_raw_file(path)); }

std::unique_ptr<ByteStream> open_memory_stream(std::string bytes, std::string name) {
  return decode(open_raw_memory(std::make_shared<const std::string>(std::move(bytes)), std::move(name)));
}

void Window::skip_mark() {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  if (at_end()) return;
  while (end_ < kMark.size()) {
    const size_t got = stream_->read(buffer_.get() + end_, kBytes - end_);
    if (got == 0) break;
    end_ += got;
  }
  if (ahead().starts_with(kMark)) consume(kMark.size());
}

}  // namespace trl::io
