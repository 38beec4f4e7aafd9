#include "run/server/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace trl::run {

namespace {

constexpr const char *kShared = "/trl/weights/shared", *kCommit = "/trl/weights/commit";

bool is_loopback(std::string_view url) {
  std::string_view host = url.substr(url.find("://") + 3);
  host = host.substr(0, host.find('/'));
  if (host.starts_with('[')) return host.starts_with("[::1]");
  host = host.substr(0, host.find(':'));
  return host == "localhost" || host == "0.0.0.0" ||
         (host.starts_with("127.") && host.find_first_not_of("0123456789.") == host.npos);
}

std::string text_of(const base::Json& answer, const char* name) {
  const base::Json value = answer.is_object() ? answer.value(name, base::Json()) : base::Json();
  return value.is_string() ? value.get<std::string>() : std::string();
}

}  // namespace

bool shares_memory(const VllmServer& server, std::string_view url) {
  return server.takes("shared_memory") && server.user == static_cast<int64_t>(::geteuid()) &&
         is_loopback(url);
}

SharedMessage::~SharedMessage() { close(); }

void SharedMessage::close() noexcept {
  if (mapped_ != nullptr) ::munmap(mapped_, bytes_);
  mapped_ = nullptr;
  bytes_ = 0;
  lent_ = false;
}

// Opens the server's file. false: this process cannot, as from within a container.
bool SharedMessage::open(const std::string& path, size_t bytes) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return false;
  struct stat about = {};
  std::string begin(token_.size(), '\0');
  // A file that shrinks would end whoever writes to its mapping.
  const bool same = ::fstat(fd, &about) == 0 && about.st_size >= static_cast<off_t>(bytes) &&
                    (::fcntl(fd, F_GET_SEALS) & F_SEAL_SHRINK) != 0 &&
                    ::pread(fd, begin.data(), begin.size(), 0) == static_cast<ssize_t>(begin.size()) &&
                    begin == token_;
  const int error = same ? map(fd, static_cast<size_t>(about.st_size)) : 0;
  ::close(fd);
  if (error != 0)
    exchange_.fail_server(
        kShared, fmt::format("the memory of the server cannot be written: {}", std::strerror(error)));
  return same;
}

// Takes the pages before, so that none is missing when it is written to. Returns 0 or an error of the system.
int SharedMessage::map(int fd, size_t bytes) noexcept {
  if (const int error = ::posix_fallocate(fd, 0, static_cast<off_t>(bytes)); error != 0) return error;
  void* const mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (mapped == MAP_FAILED) return errno;
  mapped_ = static_cast<char*>(mapped);
  bytes_ = bytes;
  return 0;
}

char* SharedMessage::begin(size_t bytes) {
  if (falls_back_) return body_.begin(bytes);
  if (lent_ && bytes <= bytes_) return mapped_;
  const base::Json given = exchange_.post_json(kShared, {{"bytes", bytes}}, /*repeatable=*/true);
  std::string token = text_of(given, "token");
  const bool known = mapped_ != nullptr && token == token_ && bytes <= bytes_;
  if (!known) {
    close();
    token_ = std::move(token);
  }
  lent_ = known || (!token_.empty() && open(text_of(given, "path"), bytes));
  if (lent_) return mapped_;
  falls_back_ = true;
  log_.info("server", "the memory of {} cannot be shared with this process: weights go over the connection",
            exchange_.url());
  return body_.begin(bytes);
}

Answer SharedMessage::send(size_t bytes) {
  if (falls_back_) return body_.send(bytes);
  lent_ = false;
  return exchange_.post(kCommit, {{"token", token_}, {"bytes", bytes}}, /*repeatable=*/false);
}

}  // namespace trl::run
