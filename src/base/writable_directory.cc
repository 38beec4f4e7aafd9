#include "base/writable_directory.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "base/files.h"

namespace trl::base {

namespace {

// Opens a file without a name, which disappears when it is closed; where the file system does not support
// that, checks the access rights.
int try_to_write(const char* directory) {
  const int file = ::open(directory, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
  if (file >= 0) {
    ::close(file);
    return 0;
  }
  if (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT && errno != EINVAL) return errno;
  return ::faccessat(AT_FDCWD, directory, W_OK | X_OK, AT_EACCESS) == 0 ? 0 : errno;
}

}  // namespace

void need_writable_directory(const std::string& path) {
  const std::string there = nearest_existing(path);
  errno = ENOTDIR;
  if (is_directory(there)) errno = try_to_write(there.c_str());
  if (errno != 0) fail_errno(there, "cannot be written into");
}

}  // namespace trl::base
