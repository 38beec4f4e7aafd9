#include "serve/weights/shared_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "serve/api/error.h"

namespace trl::serve {

namespace {

constexpr size_t kTokenBytes = 16;

[[noreturn]] void fail_call(const char* what) { fail(Status::io, "{}: {}", what, std::strerror(errno)); }

std::string random_token() {
  unsigned char bytes[kTokenBytes];
  if (::getrandom(bytes, sizeof bytes, 0) != static_cast<ssize_t>(sizeof bytes)) fail_call("getrandom");
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace

SharedMemory::SharedMemory(uint64_t bytes) : bytes_(bytes), token_(random_token()) {
  fd_ = ::memfd_create("trl-weights", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd_ < 0) fail_call("memfd_create");
  // Shrunk, it would end whoever reads it with SIGBUS.
  const bool good = ::ftruncate(fd_, static_cast<off_t>(bytes)) == 0 &&
                    ::fcntl(fd_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0;
  if (good) return;
  const int error = errno;
  ::close(fd_);
  errno = error;
  fail_call("shared memory");
}

void SharedMemory::mark() {
  if (::pwrite(fd_, token_.data(), token_.size(), 0) != static_cast<ssize_t>(token_.size()))
    fail_call("shared memory");
}

SharedMemory::~SharedMemory() {
  if (mapped_ != nullptr) ::munmap(mapped_, bytes_);
  ::close(fd_);
}

std::string SharedMemory::path() const { return fmt::format("/proc/{}/fd/{}", ::getpid(), fd_); }

std::string_view SharedMemory::contents(uint64_t bytes) {
  if (bytes > bytes_)
    throw Refusal(400, fmt::format("bytes: {} is not accepted; give at most {}", bytes, bytes_), "bytes");
  if (mapped_ == nullptr) {
    void* const mapped = ::mmap(nullptr, bytes_, PROT_READ, MAP_SHARED | MAP_POPULATE, fd_, 0);
    if (mapped == MAP_FAILED) throw Refusal(503, "no memory for the weights");
    mapped_ = mapped;
  }
  return {static_cast<const char*>(mapped_), bytes};
}

SharedMemories::Given SharedMemories::give(uint64_t bytes, uint64_t most) {
  constexpr uint64_t kLeast = 2 * kTokenBytes;
  if (bytes < kLeast || bytes > most)
    throw Refusal(400, fmt::format("bytes: {} is not accepted; give {} to {}", bytes, kLeast, most), "bytes");
  const std::lock_guard lock(mutex_);
  const bool usable = last_ != nullptr && !lent_ && last_.use_count() == 1 && last_->bytes() >= bytes;
  if (!usable) last_ = std::make_shared<SharedMemory>(bytes);
  last_->mark();
  lent_ = true;
  return {last_->token(), last_->path()};
}

std::shared_ptr<SharedMemory> SharedMemories::take(std::string_view token) {
  const std::lock_guard lock(mutex_);
  if (last_ == nullptr || !lent_ || last_->token() != token)
    throw Refusal(404, "token: there is no such memory; ask /trl/weights/shared for another", "token");
  lent_ = false;
  return last_;
}

void SharedMemories::release() {
  const std::lock_guard lock(mutex_);
  if (!lent_) last_ = nullptr;
}

}  // namespace trl::serve
