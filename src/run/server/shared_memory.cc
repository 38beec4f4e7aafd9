#include "run/server/shared_memory.h"

#include <fcntl.h>
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
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

// Opens the server's file. false: this process cannot, as from within a container.
bool SharedMessage::open(const std::string& path, size_t bytes) {
  fd_ = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd_ < 0) return false;
  struct stat about = {};
  std::string begin(token_.size(), '\0');
  const bool same = ::fstat(fd_, &about) == 0 && about.st_size == static_cast<off_t>(bytes) &&
                    ::pread(fd_, begin.data(), begin.size(), 0) == static_cast<ssize_t>(begin.size()) &&
                    begin == token_;
  if (!same) close();
  return same;
}

void SharedMessage::begin(size_t bytes) {
  close();
  if (falls_back_) return body_.begin(bytes);
  const base::Json given = exchange_.post_json(kShared, {{"bytes", bytes}}, /*repeatable=*/true);
  token_ = text_of(given, "token");
  if (!token_.empty() && open(text_of(given, "path"), bytes)) return;
  falls_back_ = true;
  log_.info("server", "the memory of {} cannot be shared with this process: weights go over the connection",
            exchange_.url());
  body_.begin(bytes);
}

// Not through a mapping: the pages of the file are new, and mapping one costs more than filling it.
void SharedMessage::write(size_t at, std::string_view bytes) {
  if (falls_back_) return body_.write(at, bytes);
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t wrote =
        ::pwrite(fd_, bytes.data() + done, bytes.size() - done, static_cast<off_t>(at + done));
    if (wrote <= 0 && errno == EINTR) continue;
    if (wrote <= 0)
      exchange_.fail_server(
          kShared, fmt::format("the memory of the server cannot be written: {}", std::strerror(errno)));
    done += static_cast<size_t>(wrote);
  }
}

Answer SharedMessage::send() {
  if (falls_back_) return body_.send();
  close();
  return exchange_.post(kCommit, {{"token", token_}}, /*repeatable=*/false);
}

}  // namespace trl::run
