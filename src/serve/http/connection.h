// One connection: reads a request, waits for its answer while it watches whether the client is still there,
// writes it, and begins anew.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "serve/http/boost.h"
#include "serve/http/held_bytes.h"
#include "serve/http/shared.h"

namespace trl::serve {

class ConnectionReply;

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(tcp::socket socket, std::shared_ptr<Shared> shared);
  ~Connection();
  void start();
  void close() noexcept;  // on the listener's thread, as all others
  void look() noexcept;   // whether the answer was given up
  bool is_closed() const { return phase_ == Phase::closed; }
  void close_when_done();  // after the answer that is being made

 private:
  friend class ConnectionReply;
  static constexpr size_t kPiece = 65536;  // bytes of a body that are read at once
  static constexpr size_t kMostLingering = 65536;
  using Parser = http::request_parser<http::buffer_body>;
  template <class Body>
  void guarded(const Body& body) noexcept;
  template <class Body>
  auto handler(Body body);
  void break_off() noexcept;
  void wait_for_request();
  void read_header();
  void parse_header();
  std::string_view text_in_buffer() const;
  void on_header(beast::error_code error);
  void begin_body(std::optional<uint64_t> length);
  bool make_room(uint64_t bytes);
  bool is_too_much(uint64_t more) const;
  void read_body();
  void on_body(beast::error_code error);
  void begin_long_body(size_t length);
  void read_long_body();
  void answer_request();
  void refuse(const Answer& answer);  // and close: more of the request may come
  void watch();
  void on_readable();
  void send(const Answer& answer);
  void begin(const Answer& head);
  void add(const std::string& piece);
  void end();
  std::string head_of(const Answer& answer, std::optional<size_t> length);
  void write();
  void on_written(size_t bytes);
  void finish();
  void linger();
  void client_gone() noexcept;
  void expire_after(double seconds);
  void on_expired();

  enum class Phase : uint8_t { idle, header, body, answering, lingering, closed };
  const std::shared_ptr<Shared> shared_;  // outlives the socket
  tcp::socket socket_;
  net::steady_timer timer_;
  Phase phase_ = Phase::idle;
  uint64_t timer_turn_ = 0;
  std::optional<beast::flat_buffer> buffer_;
  std::optional<Parser> parser_;
  Request request_;
  std::string body_;
  HeldBytes body_held_;
  size_t read_ = 0, most_ = 0;  // bytes of the body, and how many it may have
  size_t long_ = 0;             // bytes of a long body
  std::string peer_;
  std::shared_ptr<ConnectionReply> reply_;
  std::string out_, writing_;  // what waits, and what is being written
  size_t written_ = 0;         // of writing_
  bool is_writing_ = false, watching_ = false;
  bool told_ = false;  // bytes of the answer are on their way
  bool keep_ = false, last_ = false, chunked_ = false, head_only_ = false, ended_ = false, lingers_ = false;
};

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

}  // namespace trl::serve
