// The answer of one request, from any thread to its connection.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "serve/http/connection.h"
#include "serve/http/held_bytes.h"
#include "serve/http/reply.h"

namespace trl::serve {

// Its functions are for any thread.
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
