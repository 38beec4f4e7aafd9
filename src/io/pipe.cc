#include "io/pipe.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/files/files.h"
#include "base/interrupt.h"

namespace trl::io {

namespace {

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
      fail(Status::io, "{}: cannot be rewound: what was read of a pipe is gone", path_);
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
        fail(Status::io, "{}: cannot be read: {}", path_, base::system_reason(errno));
    }
  }

  std::string path_;
  int descriptor_;
  std::string start_;  // the first bytes, as long as nothing else was read
  size_t read_ = 0;
  size_t at_ = 0;
};

}  // namespace

void fail_to_open(const std::string& path) {
  fail(errno == ENOENT || errno == ENOTDIR ? Status::not_found : Status::io, "{}: cannot be opened: {}", path,
       base::system_reason(errno));
}

bool is_read_once(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

std::unique_ptr<SeekableStream> open_pipe(const std::string& path) {
  return std::make_unique<PipeStream>(path);
}

}  // namespace trl::io
