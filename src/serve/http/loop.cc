#include "serve/http/loop.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace trl::serve {

namespace {

int new_eventfd() {
  const int fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (fd < 0) fail(Status::io, "eventfd: {}", std::strerror(errno));
  return fd;
}

}  // namespace

void Loop::post(std::function<void()> body) {
  const std::lock_guard lock(mutex_);
  if (!closed_) net::post(io_, std::move(body));
}

void Loop::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
}

Bell::Bell(net::io_context& io) : descriptor_(io), fd_(new_eventfd()) { descriptor_.assign(fd_); }

void Bell::ring() noexcept {
  const uint64_t one = 1;
  const int before = errno;
  [[maybe_unused]] const ssize_t written = ::write(fd_, &one, sizeof one);
  errno = before;
}

void Bell::hush() noexcept {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = ::read(fd_, &count, sizeof count);
}

}  // namespace trl::serve
