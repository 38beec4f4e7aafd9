#include "cli/hub/partial_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "cli/hub/hub_error.h"

namespace trl::cli::hub {

bool BlobLock::try_take() {
  if (file_ < 0) file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0664);
  if (file_ < 0)
    throw HubError(
        fmt::format("the Hugging Face cache cannot be written: {}: {}", path_, std::strerror(errno)));
  while (::flock(file_, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return false;
    if (errno == ENOLCK || errno == ENOTSUP)
      return true;  // the file system has no locks; renames are still atomic
    if (errno != EINTR)
      throw HubError(fmt::format("{}: it cannot be locked: {}", path_, std::strerror(errno)));
  }
  return true;
}

void BlobLock::release() {
  if (file_ >= 0) ::close(file_);
  file_ = -1;
}

PartialFile::PartialFile(std::string blob, std::string checksum, int64_t size)
    : blob_(std::move(blob)), path_(blob_ + ".incomplete"), size_(size), digest_(std::move(checksum), size) {}

PartialFile::~PartialFile() { close(); }

void PartialFile::close() {
  if (file_ >= 0) ::close(file_);
  file_ = -1;
}

void PartialFile::fail(const char* what) const {
  const int error = errno;
  throw HubError(fmt::format("{}: {}: {}", path_, what, std::strerror(error)));
}

void PartialFile::open() {
  file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (file_ < 0) fail("cannot be opened");
  std::vector<char> buffer(size_t{1} << 20);
  for (;;) {
    const ssize_t count = ::read(file_, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("cannot be read");
    if (count == 0) break;
    written_ += count;
    digest_.update({buffer.data(), static_cast<size_t>(count)});
  }
  if (written_ > size_) restart();
}

void PartialFile::write(std::string_view bytes) {
  if (written_ + static_cast<int64_t>(bytes.size()) > size_)
    throw HubError(fmt::format("{}: more than the {} bytes that the hub told of came", path_, size_));
  for (std::string_view rest = bytes; !rest.empty();) {
    const ssize_t count = ::write(file_, rest.data(), rest.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("cannot be written");
    rest.remove_prefix(static_cast<size_t>(count));
  }
  digest_.update(bytes);
  written_ += static_cast<int64_t>(bytes.size());
}

void PartialFile::restart() {
  digest_.hex();
  written_ = 0;
  if (::ftruncate(file_, 0) != 0 || ::lseek(file_, 0, SEEK_SET) != 0) fail("cannot be written");
}

bool PartialFile::check() {
  found_ = digest_.hex();
  return found_ == digest_.expected();
}

void PartialFile::keep() {
  close();
  if (std::rename(path_.c_str(), blob_.c_str()) != 0) fail("cannot be renamed");  // replaces a link there
}

void PartialFile::discard() {
  close();
  ::unlink(path_.c_str());
}

}  // namespace trl::cli::hub
