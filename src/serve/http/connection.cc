#include "serve/http/connection.h"

#include <fmt/format.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/error.h"
#include "base/memory/large_pages.h"
#include "serve/api/error.h"
#include "serve/http/head.h"

namespace trl::serve {

namespace {

constexpr size_t kPiece = 65536;  // bytes of a body that are read at once
constexpr size_t kLongPiece = 1 << 20;
constexpr size_t kMostLingering = 65536;
constexpr double kLinger = 2;        // seconds
constexpr int kUserTimeout = 30000;  // milliseconds until a peer that vanished without a word is given up

constexpr std::string_view kNoMemory =
    "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\n"
    "Connection: close\r\nContent-Length: 94\r\n\r\n"
    R"({"error":{"message":"out of memory","type":"ServiceUnavailableError","param":null,"code":503}})";

int new_eventfd() {
  const int fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (fd < 0) fail(Status::io, "eventfd: {}", std::strerror(errno));
  return fd;
}

void set_options(tcp::socket& socket) {
  beast::error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  socket.set_option(net::socket_base::keep_alive(true), ignored);
  ::setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_USER_TIMEOUT, &kUserTimeout, sizeof kUserTimeout);
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

Connection::Connection(tcp::socket socket, std::shared_ptr<Shared> shared)
    : shared_(std::move(shared)),
      socket_(std::move(socket)),
      timer_(socket_.get_executor()),
      body_held_(shared_->counts.held_bytes) {
  ++shared_->counts.connections;
}

Connection::~Connection() { --shared_->counts.connections; }

// Runs what the connection has to do; without memory for it, the connection ends.
template <class Body>
void Connection::guarded(const Body& body) noexcept {
  try {
    body();
  } catch (...) {
    break_off();
  }
}

// Returns body as a handler of an operation that keeps this.
template <class Body>
auto Connection::handler(Body body) {
  return [me = shared_from_this(), body = std::move(body)](auto... arguments) {
    me->guarded([&] { body(*me, arguments...); });
  };
}

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

void Connection::wait_for_request() {
  phase_ = Phase::idle;
  told_ = false;
  if (buffer_ && buffer_->size() > 0) return read_header();
  buffer_.reset();
  parser_.reset();
  body_ = {};
  request_ = {};
  out_ = {};
  writing_ = {};
  written_ = 0;
  expire_after(shared_->options.idle_timeout);
  if (watching_) return;  // on_readable() goes on
  socket_.async_wait(tcp::socket::wait_read, handler([](Connection& me, beast::error_code error) {
                       if (me.phase_ != Phase::idle) return;
                       if (error) return me.close();
                       me.read_header();
                     }));
}

void Connection::read_header() {
  phase_ = Phase::header;
  expire_after(shared_->options.header_timeout);
  if (!buffer_) buffer_.emplace(shared_->options.max_header_bytes + kPiece);
  parser_.emplace();
  parser_->header_limit(static_cast<uint32_t>(shared_->options.max_header_bytes));
  parser_->body_limit(uint64_t{1} << 62);  // counted here
  http::async_read_header(
      socket_, *buffer_, *parser_,
      handler([](Connection& me, beast::error_code error, size_t) { me.on_header(error); }));
}

void Connection::on_header(beast::error_code error) {
  if (phase_ != Phase::header) return;
  if (error) {
    const std::optional<Refusal> refusal = refusal_of_head(error);
    return refusal ? refuse(answer_of(*refusal)) : close();
  }
  const auto& head = parser_->get();
  keep_ = head.keep_alive() && !last_;
  chunked_ = head.version() >= 11;
  head_only_ = head.method() == http::verb::head;
  try {
    request_ = request_of(head);
  } catch (const Refusal& refusal) {
    return refuse(answer_of(refusal));
  }
  request_.peer = peer_;
  std::optional<uint64_t> length;
  if (const auto told = parser_->content_length()) length = *told;
  if (const std::optional<Answer> refused = shared_->service.refuse(request_, length)) {
    return parser_->is_done() || length.value_or(1) == 0 ? send(*refused) : refuse(*refused);
  }
  phase_ = Phase::body;
  read_ = long_ = 0;
  body_ = std::exchange(request_.body, {});  // memory from an earlier one, or empty
  most_ = shared_->service.most_bytes(request_);
  if (is_too_much(length.value_or(0)))
    return refuse(answer_of(too_much_held(shared_->options.max_held_bytes)));
  if (!make_room(length.value_or(0))) return refuse(answer_of({503, "out of memory for the body"}));
  if (beast::iequals(head[http::field::expect], "100-continue") && !parser_->is_done()) {
    out_ = "HTTP/1.1 100 Continue\r\n\r\n";
    write();
  }
  if (most_ <= shared_->options.max_body_bytes || !length) return read_body();
  long_ = *length;
  read_ = std::min(buffer_->size(), long_);
  if (body_.size() < read_) body_.resize(read_);
  std::memcpy(body_.data(), buffer_->data().data(), read_);
  buffer_->consume(read_);
  read_long_body();
}

// Gets memory for a body whose size is told, if such a body is longer than others.
bool Connection::make_room(uint64_t bytes) {
  if (most_ <= shared_->options.max_body_bytes) return true;
  try {
    if (body_.capacity() >= bytes) return true;
    body_ = {};
    body_.reserve(bytes + kPiece);
    base::want_large_pages(body_.data(), bytes);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

// Returns whether bodies and answers would have too many bytes with so many more of this one. A body alone is
// never too much, nor one that is longer than others, of which there is one at a time.
bool Connection::is_too_much(uint64_t more) const {
  const int64_t all = shared_->counts.held_bytes;
  const bool alone = all <= static_cast<int64_t>(body_held_.own());
  return !alone && most_ <= shared_->options.max_body_bytes && more > 0 &&
         static_cast<uint64_t>(all) + more > shared_->options.max_held_bytes;
}

void Connection::read_body() {
  if (parser_->is_done()) return answer_request();
  expire_after(shared_->options.body_timeout);
  if (body_.size() < read_ + kPiece) {
    if (body_.capacity() < read_ + kPiece && is_too_much(kPiece))
      return refuse(answer_of(too_much_held(shared_->options.max_held_bytes)));
    body_.resize(read_ + kPiece);
    body_held_.set(body_.capacity());
  }
  parser_->get().body().data = body_.data() + read_;
  parser_->get().body().size = body_.size() - read_;
  http::async_read_some(socket_, *buffer_, *parser_,
                        handler([](Connection& me, beast::error_code error, size_t) { me.on_body(error); }));
}

void Connection::on_body(beast::error_code error) {
  if (phase_ != Phase::body) return;
  if (error == http::error::need_buffer) error = {};
  if (error) {
    const std::optional<Refusal> refusal = refusal_of_head(error);
    return refusal ? refuse(answer_of(*refusal)) : close();
  }
  read_ = body_.size() - parser_->get().body().size;
  if (read_ > most_) return refuse(answer_of(too_large(read_, most_)));
  read_body();
}

// Reads a body of known size, longer than others, into its place: not through the buffer of the parser.
void Connection::read_long_body() {
  if (read_ == long_) return answer_request();
  expire_after(shared_->options.body_timeout);
  const size_t piece = std::min(kLongPiece, long_ - read_);
  if (body_.size() < read_ + piece) body_.resize(read_ + piece);
  socket_.async_read_some(net::buffer(body_.data() + read_, piece),
                          handler([](Connection& me, beast::error_code error, size_t bytes) {
                            if (me.phase_ != Phase::body) return;
                            if (error) return me.close();
                            me.read_ += bytes;
                            me.read_long_body();
                          }));
}

void Connection::answer_request() {
  phase_ = Phase::answering;
  ++timer_turn_;
  timer_.cancel();
  body_.resize(read_);
  const bool may_be_kept = long_ > 0;
  if (!may_be_kept && body_.capacity() - body_.size() > kPiece) body_.shrink_to_fit();
  parser_.reset();
  auto exchange = std::make_shared<Exchange>();
  exchange->request = request_;
  request_.held.reset();
  body_held_.set(std::min(body_.capacity(), body_held_.own()));
  exchange->request.body_held = std::make_shared<HeldBytes>(std::move(body_held_));
  exchange->request.body = std::exchange(body_, {});
  reply_ = std::make_shared<ConnectionReply>(weak_from_this(), shared_);
  exchange->reply = reply_;
  ended_ = told_ = false;
  watch();
  shared_->service.serve(std::move(exchange));
}

// Answers before the whole request was read, and closes when the client has had time to read the answer.
void Connection::refuse(const Answer& answer) {
  phase_ = Phase::answering;
  keep_ = false;
  lingers_ = true;
  request_.held.reset();
  body_ = {};
  body_held_.set(0);
  reply_ = std::make_shared<ConnectionReply>(weak_from_this(), shared_);
  send(answer);
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

std::string Connection::head_of(const Answer& answer, std::optional<size_t> length) {
  std::string head = fmt::format("HTTP/1.1 {} {}\r\n", answer.status, reason_of(answer.status));
  if (!answer.body.empty() || !length) head += fmt::format("Content-Type: {}\r\n", answer.type);
  if (length) head += fmt::format("Content-Length: {}\r\n", *length);
  if (!length && chunked_) head += "Transfer-Encoding: chunked\r\n";
  if (!length && !chunked_) keep_ = false;
  head += keep_ ? (chunked_ ? "" : "Connection: keep-alive\r\n") : "Connection: close\r\n";
  for (const auto& [name, value] : answer.fields) head += fmt::format("{}: {}\r\n", name, value);
  if (reply_)
    for (const auto& [name, value] : reply_->fields_) head += fmt::format("{}: {}\r\n", name, value);
  for (const auto& [name, value] : shared_->service.fields_for(request_))
    head += fmt::format("{}: {}\r\n", name, value);
  return head + "\r\n";
}

void Connection::send(const Answer& answer) {
  if (phase_ != Phase::answering) phase_ = Phase::answering;
  out_ += head_of(answer, answer.body.size());
  if (!head_only_) out_ += answer.body;
  ended_ = true;
  write();
}

void Connection::begin(const Answer& head) {
  out_ += head_of(head, std::nullopt);
  if (!head.body.empty()) add(head.body);
  write();
}

void Connection::add(const std::string& piece) {
  if (head_only_ || piece.empty()) return;
  if (chunked_)
    out_ += fmt::format("{:x}\r\n{}\r\n", piece.size(), piece);
  else
    out_ += piece;
  write();
}

void Connection::end() {
  if (chunked_ && !head_only_) out_ += "0\r\n\r\n";
  ended_ = true;
  write();
}

void Connection::write() {
  if (is_writing_ || phase_ == Phase::closed) return;
  if (writing_.size() == written_) {
    if (out_.empty()) return ended_ && phase_ == Phase::answering ? finish() : void();
    writing_ = std::exchange(out_, {});
    written_ = 0;
  }
  if (phase_ == Phase::answering) expire_after(shared_->options.write_timeout);
  socket_.async_write_some(net::buffer(writing_.data() + written_, writing_.size() - written_),
                           handler([](Connection& me, beast::error_code error, size_t bytes) {
                             me.is_writing_ = false;
                             if (me.phase_ == Phase::closed) return;
                             if (error) return me.close();
                             me.on_written(bytes);
                           }));
  is_writing_ = true;
  told_ = phase_ == Phase::answering;
}

void Connection::on_written(size_t bytes) {
  written_ += bytes;
  if (reply_) reply_->written(bytes);
  if (phase_ == Phase::answering) {
    ++timer_turn_;
    timer_.cancel();
  }
  write();
}

// The answer is written: the next request, or the end.
void Connection::finish() {
  if (const auto reply = std::exchange(reply_, nullptr)) reply->forget();
  ended_ = false;
  ++timer_turn_;
  timer_.cancel();
  if (lingers_) return linger();
  if (!keep_) {
    beast::error_code ignored;
    socket_.shutdown(tcp::socket::shutdown_send, ignored);
    return close();
  }
  parser_.reset();
  wait_for_request();
}

// Reads away what the client still sends, so that it sees the answer and not a reset.
void Connection::linger() {
  beast::error_code ignored;
  if (phase_ != Phase::lingering) {
    phase_ = Phase::lingering;
    read_ = 0;
    socket_.shutdown(tcp::socket::shutdown_send, ignored);
    expire_after(kLinger);
    body_.resize(kPiece);
  }
  socket_.async_read_some(net::buffer(body_),
                          handler([](Connection& me, beast::error_code error, size_t bytes) {
                            me.read_ += bytes;
                            if (me.phase_ != Phase::lingering) return;
                            if (error || me.read_ > kMostLingering) return me.close();
                            me.linger();
                          }));
}

template <class Body>
void ConnectionReply::on_connection(Body body) {
  shared_->loop.post([weak = connection_, me = shared_from_this(), body = std::move(body)] {
    const std::shared_ptr<Connection> connection = weak.lock();
    if (connection && connection->reply_ == me) connection->guarded([&] { body(*connection); });
  });
}

void ConnectionReply::note(std::string field, std::string value) {
  on_connection([me = this, field = std::move(field), value = std::move(value)](Connection&) {
    me->fields_.emplace_back(field, value);
  });
}

void ConnectionReply::send(Answer answer) {
  held_.add(answer.body.size());
  on_connection([answer = std::move(answer)](Connection& connection) { connection.send(answer); });
}

void ConnectionReply::begin(Answer head) {
  on_connection([head = std::move(head)](Connection& connection) { connection.begin(head); });
}

void ConnectionReply::add(std::string piece) {
  held_.add(piece.size());
  on_connection([piece = std::move(piece)](Connection& connection) { connection.add(piece); });
}

void ConnectionReply::end() {
  on_connection([](Connection& connection) { connection.end(); });
}

void ConnectionReply::on_gone(std::function<void()> call) {
  {
    const std::lock_guard lock(mutex_);
    if (!gone_) {
      on_gone_ = std::move(call);
      return;
    }
  }
  call();
}

void ConnectionReply::give_up() noexcept {
  given_up_ = true;
  shared_->bell.ring();
}

void ConnectionReply::client_gone() noexcept {
  std::function<void()> call;
  {
    const std::lock_guard lock(mutex_);
    gone_ = true;
    call = std::exchange(on_gone_, nullptr);
  }
  if (call) call();
}

void ConnectionReply::forget() {
  const std::lock_guard lock(mutex_);
  on_gone_ = nullptr;
}

}  // namespace trl::serve
