// One connection: reads a request, waits for its answer while it watches whether the client is still there,
// writes it, and begins anew.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "serve/http/boost.h"
#include "serve/http/held_bytes.h"
#include "serve/http/listener.h"

namespace trl::serve {

// Runs functions on the listener's thread, until it has ended.
class Loop {
 public:
  net::io_context& io() { return io_; }
  void post(std::function<void()> body);  // any thread; dropped after close()
  void close();

 private:
  net::io_context io_{1};
  std::mutex mutex_;
  bool closed_ = false;
};

// Wakes the listener's thread; without any memory.
class Bell {
 public:
  explicit Bell(net::io_context& io);  // throws Error(io)
  void ring() noexcept;                // any thread
  void hush() noexcept;                // it has been heard
  net::posix::stream_descriptor& descriptor() { return descriptor_; }

 private:
  net::posix::stream_descriptor descriptor_;
  const int fd_;
};

struct Shared {  // by all connections of a listener
  Shared(const ServerOptions& all, Service& answers, ListenerCounts counted)
      : options(all), service(answers), counts(counted) {}
  Loop loop;
  const ServerOptions& options;
  Service& service;
  ListenerCounts counts;
  Bell bell{loop.io()};  // a connection has closed, or an answer was given up
};

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
  using Parser = http::request_parser<http::buffer_body>;
  template <class Body>
  void guarded(const Body& body) noexcept;
  template <class Body>
  auto handler(Body body);
  void break_off() noexcept;
  void wait_for_request();
  void read_header();
  void on_header(beast::error_code error);
  bool make_room(uint64_t bytes);
  bool is_too_much(uint64_t more) const;
  void read_body();
  void on_body(beast::error_code error);
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

// The answer of one request. Its functions are for any thread.
class ConnectionReply final : public Reply, public std::enable_shared_from_this<ConnectionReply> {
 public:
  ConnectionReply(std::weak_ptr<Connection> connection, std::shared_ptr<Shared> shared)
      : connection_(std::move(connection)), shared_(std::move(shared)), held_(shared_->counts.held_bytes) {}
  void note(std::string field, std::string value) override;
  void send(Answer answer) override;
  void begin(Answer head) override;
  void add(std::string piece) override;
  void end() override;
  size_t waiting() const override { return held_.own(); }
  bool gone() const override { return gone_; }
  void on_gone(std::function<void()> call) override;
  void give_up() noexcept override;

  void written(size_t bytes) { held_.drop(bytes); }
  void client_gone() noexcept;
  void forget();  // the answer is written: nobody is told any more

 private:
  friend class Connection;
  template <class Body>
  void on_connection(Body body);
  const std::weak_ptr<Connection> connection_;
  const std::shared_ptr<Shared> shared_;
  HeldBytes held_;  // what the client has not taken
  std::atomic<bool> gone_{false}, given_up_{false};
  std::mutex mutex_;
  std::function<void()> on_gone_;
  HeaderFields fields_;  // of the connection's thread
};

}  // namespace trl::serve
