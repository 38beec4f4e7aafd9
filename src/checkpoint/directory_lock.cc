#include "checkpoint/directory_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <mutex>

#include "base/error.h"
#include "tensor/process_state.h"

namespace trl::checkpoint {

namespace {

struct Held {
  explicit Held(int descriptor) : fd(descriptor) {}
  ~Held() { ::close(fd); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  const int fd;
};

struct Locks {
  std::mutex mutex;
  std::map<std::pair<dev_t, ino_t>, std::weak_ptr<Held>> held;
};

}  // namespace

std::shared_ptr<void> lock_directory(const std::string& directory) {
  const auto mine = std::make_shared<Held>(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat about {};
  if (mine->fd < 0 || ::fstat(mine->fd, &about) != 0) return nullptr;
  auto& locks = tensor::process_state<Locks>();
  const std::lock_guard guard(locks.mutex);
  std::weak_ptr<Held>& known = locks.held[{about.st_dev, about.st_ino}];
  if (auto held = known.lock()) return held;
  if (::flock(mine->fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return nullptr;
    throw Error(Status::io,
                fmt::format("output_dir: another run is writing into {}: wait until it ends, or give another "
                            "directory",
                            directory),
                "output_dir");
  }
  known = mine;
  return mine;
}

}  // namespace trl::checkpoint
