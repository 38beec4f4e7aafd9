#include "memory/unnamed_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/files.h"
#include "base/text/quantity.h"

namespace trl::memory {

namespace {

// Opens an unnamed file; on a file system without these, a named file that is unlinked at once.
int open_in(const std::string& directory) {
  const int file = ::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return file;
  std::string name = base::join_path(directory, ".trl-XXXXXX");
  const int named = ::mkostemp(name.data(), O_CLOEXEC);
  if (named >= 0) ::unlink(name.c_str());
  return named;
}

void check_is_on_disk(const std::string& directory) {
  struct statfs info {};
  if (::statfs(directory.c_str(), &info) != 0) return;
  const auto type = static_cast<uint64_t>(info.f_type);
  if (type != TMPFS_MAGIC && type != RAMFS_MAGIC) return;
  fail_key(
      "offload_dir",
      "offload_dir: {} is on a {}, whose files are kept in memory, so moving data there frees none: name a "
      "directory on a disk",
      directory, type == TMPFS_MAGIC ? "tmpfs" : "ramfs");
}

int opened(const std::string& directory) {
  check_is_on_disk(directory);
  const int file = open_in(directory);
  if (file < 0) base::fail_errno(directory, "no file can be created in it for what leaves memory");
  return file;
}

}  // namespace

UnnamedFile::UnnamedFile(const std::string& directory)
    : directory_(base::nearest_existing(directory)), descriptor_(opened(directory_)) {}

void UnnamedFile::check(const std::string& directory) { check_is_on_disk(base::nearest_existing(directory)); }

UnnamedFile::~UnnamedFile() { ::close(descriptor_); }

int64_t UnnamedFile::free_bytes() const {
  struct statvfs info {};
  if (::fstatvfs(descriptor_, &info) != 0) base::fail_errno(directory_, "its free space cannot be read");
  return static_cast<int64_t>(info.f_bavail) * static_cast<int64_t>(info.f_frsize);
}

void UnnamedFile::reserve(int64_t bytes, const std::string& what) const {
  const auto in_words = [](int64_t of) { return base::bytes_text(static_cast<double>(of)); };
  const int64_t free = free_bytes();
  const int error = free < bytes ? ENOSPC : ::posix_fallocate(descriptor_, 0, bytes);
  if (error == 0) return;
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
    throw Error(Status::io,
                fmt::format("offload_dir: {}: {} need {} of disk, and {} are free; make room, or name a "
                            "directory on another disk",
                            directory_, what, in_words(bytes), in_words(free)),
                "offload_dir");
  }
  errno = error;
  base::fail_errno(directory_, "no room can be taken on the disk");
}

}  // namespace trl::memory
