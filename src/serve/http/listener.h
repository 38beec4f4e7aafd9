// Accepts connections, reads requests and writes answers, on one thread.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "serve/http/reply.h"
#include "serve/options.h"

namespace trl::serve {

// Answers requests. Its functions run on the listener's thread and must not wait; what they throw ends the
// connection.
class Service {
 public:
  virtual ~Service() = default;
  // Looks at a request before its body is read; length: of the body, if the client tells. Returns the answer
  // of one that is refused. May give the request something to hold.
  virtual std::optional<Answer> refuse(Request& head, std::optional<uint64_t> length) = 0;
  // Returns how many bytes the body of a request may have that was not refused.
  virtual size_t most_bytes(const Request& head) = 0;
  virtual void serve(std::shared_ptr<Exchange> exchange) = 0;
  // Header fields of every answer to the request.
  virtual HeaderFields fields_for(const Request& head) = 0;
};

struct ListenerCounts {
  std::atomic<int64_t>& connections;
  std::atomic<int64_t>& slow_readers;
  std::atomic<int64_t>& held_bytes;  // of bodies and answers
};

class Listener {
 public:
  // The arguments outlive this.
  Listener(const ServerOptions& options, Service& service, ListenerCounts counts);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // Binds and listens. Throws Error(io) with the address and the reason.
  void open();
  // Starts the thread. begin: called first on it; on_wake: called on it when wake_fd becomes readable.
  void start(const std::function<void()>& begin, int wake_fd, std::function<void()> on_wake);
  void stop(double seconds);    // lets answers be read for so long, closes everything and ends the thread
  std::string address() const;  // "127.0.0.1:8000", "[::1]:8000"
  int port() const;
  bool is_loopback() const;

 private:
  struct Core;
  std::shared_ptr<Core> core_;
};

}  // namespace trl::serve
