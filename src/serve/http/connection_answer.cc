// The answer of a connection: its head, its bytes as the client takes them, and what follows it.
#include <fmt/format.h>

#include <utility>

#include "serve/http/connection.h"
#include "serve/http/connection_reply.h"
#include "serve/http/head.h"

namespace trl::serve {

namespace {

constexpr double kLinger = 2;  // seconds

}  // namespace

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

}  // namespace trl::serve
