#include "run/server/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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

SharedMessage::~SharedMessage() { unmap(); }

void SharedMessage::unmap() {
  if (mapped_ != nullptr) ::munmap(mapped_, bytes_);
  mapped_ = nullptr;
}

// Maps the server's memory. false: this process cannot open it, as from within a container.
bool SharedMessage::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return false;
  struct stat about = {};
  std::string begin(token_.size(), '\0');
  const bool same = ::fstat(fd, &about) == 0 && about.st_size == static_cast<off_t>(bytes_) &&
                    ::pread(fd, begin.data(), begin.size(), 0) == static_cast<ssize_t>(begin.size()) &&
                    begin == token_;
  void* const mapped = same ? ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
  ::close(fd);
  if (mapped == MAP_FAILED) return false;
  mapped_ = mapped;
  return true;
}

char* SharedMessage::begin(size_t bytes) {
  unmap();
  if (falls_back_) return body_.begin(bytes);
  const base::Json given = exchange_.post_json(kShared, {{"bytes", bytes}}, /*repeatable=*/true);
  bytes_ = bytes;
  token_ = text_of(given, "token");
  if (!token_.empty() && open(text_of(given, "path"))) return static_cast<char*>(mapped_);
  falls_back_ = true;
  log_.info("server", "the memory of {} cannot be shared with this process: weights go over the connection",
            exchange_.url());
  return body_.begin(bytes);
}

Answer SharedMessage::send(size_t bytes) {
  if (falls_back_) return body_.send(bytes);
  unmap();  // the server takes it once nobody can write to it
  return exchange_.post(kCommit, {{"token", token_}}, /*repeatable=*/false);
}

}  // namespace trl::run
