#include "serve/http/connection.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

#include "serve/api/error.h"
#include "serve/http/connection_reply.h"

namespace trl::serve {

namespace {

constexpr int kUserTimeout = 30000;  // milliseconds until a peer that vanished without a word is given up

constexpr std::string_view kNoMemory =
    "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\n"
    "Connection: close\r\nContent-Length: 94\r\n\r\n"
    R"({"error":{"message":"out of memory","type":"ServiceUnavailableError","param":null,"code":503}})";

void set_options(tcp::socket& socket) {
  beast::error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  socket.set_option(net::socket_base::keep_alive(true), ignored);
  ::setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_USER_TIMEOUT, &kUserTimeout, sizeof kUserTimeout);
}

}  // namespace

Connection::Connection(tcp::socket socket, std::shared_ptr<Shared> shared)
    : shared_(std::move(shared)),
      socket_(std::move(socket)),
      timer_(socket_.get_executor()),
      body_held_(shared_->counts.held_bytes) {
  ++shared_->counts.connections;
}

Connection::~Connection() { --shared_->counts.connections; }

void Connection::start() {
  guarded([this] {
    set_options(socket_);
    beast::error_code error;
    const tcp::endpoint peer = socket_.remote_endpoint(error);
    if (error) return close();
    peer_ = peer.address().to_string();
    wait_for_request();
  });
}

// Answers without memory, unless an answer has begun, and closes. What the client has sent is read away, or
// it would see a reset.
void Connection::break_off() noexcept {
  if (phase_ == Phase::closed) return;
  const int fd = socket_.native_handle();
  if (!told_ && !is_writing_ && phase_ != Phase::idle && phase_ != Phase::lingering) {
    ::send(fd, kNoMemory.data(), kNoMemory.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    std::array<char, 4096> away;
    for (size_t read = 0; read < kMostLingering; read += away.size())
      if (::recv(fd, away.data(), away.size(), MSG_DONTWAIT) <= 0) break;
  }
  close();
}

void Connection::look() noexcept {
  if (reply_ && reply_->given_up_) break_off();
}

void Connection::close() noexcept {
  if (phase_ == Phase::closed) return;
  phase_ = Phase::closed;
  ++timer_turn_;
  timer_.cancel();
  request_.held.reset();
  body_held_.set(0);
  client_gone();
  beast::error_code ignored;
  socket_.close(ignored);
  shared_->bell.ring();
}

void Connection::close_when_done() {
  last_ = true;
  keep_ = false;
  if (phase_ == Phase::idle) close();
}

void Connection::client_gone() noexcept {
  if (const auto reply = std::exchange(reply_, nullptr)) reply->client_gone();
}

void Connection::expire_after(double seconds) {
  const uint64_t turn = ++timer_turn_;
  timer_.expires_after(time_of(seconds));
  timer_.async_wait(handler([turn](Connection& me, beast::error_code error) {
    if (!error && turn == me.timer_turn_) me.on_expired();
  }));
}

void Connection::on_expired() {
  switch (phase_) {
    case Phase::header:
    case Phase::body:
      return refuse(answer_of({408, "the request did not come in time; send it again"}));
    case Phase::answering:
      if (is_writing_) ++shared_->counts.slow_readers;
      return close();
    default:
      return close();
  }
}

// Looks whether the client goes while its answer is made.
void Connection::watch() {
  if (watching_) return;
  watching_ = true;
  socket_.async_wait(tcp::socket::wait_read, handler([](Connection& me, beast::error_code error) {
                       me.watching_ = false;
                       if (error || me.phase_ == Phase::closed) return;
                       me.on_readable();
                     }));
}

void Connection::on_readable() {
  if (phase_ == Phase::idle) return read_header();
  if (phase_ != Phase::answering) return;
  char byte = 0;
  const ssize_t got = ::recv(socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  const bool gone = got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
  if (gone) return close();
  // A next request waits: it is read after the answer, and until then only a failed write tells.
}

}  // namespace trl::serve
