// A request of a connection: waited for, its head read, and given to the service once its body is there.
#include <algorithm>
#include <utility>

#include "serve/api/error.h"
#include "serve/http/connection.h"
#include "serve/http/connection_reply.h"
#include "serve/http/head.h"

namespace trl::serve {

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
  parse_header();
}

// Skips empty lines before a request (RFC 9112, 2.2), which may come in pieces, and reads its head.
void Connection::parse_header() {
  const bool skipped = buffer_->size() > 0 && text_in_buffer().front() == '\r';
  while (text_in_buffer().starts_with("\r\n")) buffer_->consume(2);
  if (skipped && buffer_->size() == 0) return wait_for_request();
  if (text_in_buffer() == "\r") {
    socket_.async_read_some(buffer_->prepare(1),
                            handler([](Connection& me, beast::error_code error, size_t bytes) {
                              if (me.phase_ != Phase::header) return;
                              if (error) return me.close();
                              me.buffer_->commit(bytes);
                              me.parse_header();
                            }));
    return;
  }
  parser_.emplace();
  parser_->header_limit(static_cast<uint32_t>(shared_->options.max_header_bytes));
  parser_->body_limit(uint64_t{1} << 62);  // counted here
  http::async_read_header(
      socket_, *buffer_, *parser_,
      handler([](Connection& me, beast::error_code error, size_t) { me.on_header(error); }));
}

std::string_view Connection::text_in_buffer() const {
  return {static_cast<const char*>(buffer_->data().data()), buffer_->size()};
}

void Connection::on_header(beast::error_code error) {
  if (phase_ != Phase::header) return;
  const std::string_view text = text_in_buffer();
  if (error == http::error::bad_method && (text == "\r" || text.starts_with("\r\n"))) return parse_header();
  if (error) {
    const std::optional<Refusal> refusal = refusal_of_head(error, text);
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
  begin_body(length);
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

}  // namespace trl::serve
