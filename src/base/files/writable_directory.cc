#include "base/files/writable_directory.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "base/files/files.h"

namespace trl::base {

namespace {

// Makes a file with a name and removes it at once, for file systems without nameless files. /proc and /sys
// let root pass every check of access rights, but accept no file.
int try_to_make_file(const std::string& directory) {
  std::string path = directory + "/.trl-XXXXXX";
  const int file = ::mkostemp(path.data(), O_CLOEXEC);
  if (file < 0) return errno == ENOENT ? EPERM : errno;  // the directory is there
  ::close(file);
  ::unlink(path.c_str());
  return 0;
}

// Opens a file without a name, which disappears when it is closed.
int try_to_write(const std::string& directory) {
  const int file = ::open(directory.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
  if (file >= 0) {
    ::close(file);
    return 0;
  }
  if (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT && errno != EINVAL) return errno;
  return try_to_make_file(directory);
}

}  // namespace

void need_writable_directory(const std::string& path) {
  const std::string there = nearest_existing(path);
  errno = ENOTDIR;
  if (is_directory(there)) errno = try_to_write(there);
  if (errno != 0) fail_errno(there, "cannot be written into");
}

}  // namespace trl::base
