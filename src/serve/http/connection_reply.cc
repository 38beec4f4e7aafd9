#include "serve/http/connection_reply.h"

#include <utility>

namespace trl::serve {

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
