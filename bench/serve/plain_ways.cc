#include "serve/plain_ways.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "serve/client.h"

namespace trl::bench {

namespace {

constexpr size_t kPiece = 1 << 20;  // bytes of a call

// A socket, closed at the end.
struct Socket {
  const int fd;
  ~Socket() { ::close(fd); }
};

// Returns the port of a socket that listens on the loopback address.
int listen_on(int fd) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&address), size) != 0 || ::listen(fd, 1) != 0 ||
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    throw std::runtime_error("cannot listen");
  return ntohs(address.sin_port);
}

template <class Call>
void move_all(size_t bytes, const Call& call) {
  for (size_t at = 0; at < bytes;) {
    const ssize_t moved = call(at, std::min(kPiece, bytes - at));
    if (moved <= 0) throw std::runtime_error("the loopback connection ended");
    at += static_cast<size_t>(moved);
  }
}

}  // namespace

PlainWays::PlainWays(size_t bytes)
    : bytes_(bytes),
      from_(std::make_unique_for_overwrite<char[]>(bytes)),
      to_(std::make_unique_for_overwrite<char[]>(bytes)) {
  std::memset(from_.get(), 1, bytes);
  std::memset(to_.get(), 2, bytes);
}

double PlainWays::copy() {
  const double begin = now();
  std::memcpy(to_.get(), from_.get(), bytes_);
  const double end = now();
  from_[0] = to_[bytes_ - 1];
  return end - begin;
}

double PlainWays::loopback() {
  const Socket listening{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  const Socket out{connect_to(listen_on(listening.fd))};
  const Socket in{::accept4(listening.fd, nullptr, nullptr, SOCK_CLOEXEC)};
  const double begin = now();
  std::thread sending([&] {
    move_all(bytes_,
             [&](size_t at, size_t piece) { return ::send(out.fd, from_.get() + at, piece, MSG_NOSIGNAL); });
  });
  move_all(bytes_, [&](size_t at, size_t piece) { return ::recv(in.fd, to_.get() + at, piece, 0); });
  sending.join();
  return now() - begin;
}

}  // namespace trl::bench
