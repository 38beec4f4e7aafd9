// The body of a request, and the memory that it may have.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/memory/large_pages.h"
#include "serve/api/error.h"
#include "serve/http/connection.h"
#include "serve/http/head.h"

namespace trl::serve {

namespace {

constexpr size_t kLongPiece = 1 << 20;  // bytes of a long body that are read at once

}  // namespace

// length: of the body, if the client tells.
void Connection::begin_body(std::optional<uint64_t> length) {
  phase_ = Phase::body;
  read_ = long_ = 0;
  body_ = std::exchange(request_.body, {});  // memory from an earlier one, or empty
  most_ = shared_->service.most_bytes(request_);
  if (is_too_much(length.value_or(0)))
    return refuse(answer_of(too_much_held(shared_->options.max_held_bytes)));
  if (!make_room(length.value_or(0))) return refuse(answer_of({503, "out of memory for the body"}));
  if (chunked_ && beast::iequals(parser_->get()[http::field::expect], "100-continue") &&
      !parser_->is_done()) {
    out_ = "HTTP/1.1 100 Continue\r\n\r\n";
    write();
  }
  if (most_ <= shared_->options.max_body_bytes || !length) return read_body();
  begin_long_body(*length);
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

void Connection::begin_long_body(size_t length) {
  long_ = length;
  read_ = std::min(buffer_->size(), long_);
  if (body_.size() < read_) body_.resize(read_);
  std::memcpy(body_.data(), buffer_->data().data(), read_);
  buffer_->consume(read_);
  read_long_body();
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

}  // namespace trl::serve
