// Takes the answer of one request: a whole answer, or a stream of pieces. Any thread may call it;
// nothing here waits for the client.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "serve/http/message.h"

namespace trl::serve {

class Reply {
 public:
  virtual ~Reply() = default;
  virtual void note(std::string field, std::string value) = 0;  // a header field of whichever answer comes
  virtual void send(Answer answer) = 0;                         // once, instead of a stream
  virtual void begin(Answer head) = 0;  // a stream, whose body comes in pieces; its own is the first
  virtual void add(std::string piece) = 0;
  virtual void end() = 0;
  // Ends the answer for lack of memory: a short 503 that needs none, or a stream that breaks off.
  virtual void give_up() noexcept = 0;
  virtual size_t waiting() const = 0;  // bytes of a stream that the client has not taken
  virtual bool gone() const = 0;       // the client has: nothing that is sent arrives
  // Has the function called once, on any thread, when the client goes before the end; at once if it has gone.
  virtual void on_gone(std::function<void()> call) = 0;
};

struct Exchange {
  Request request;
  std::shared_ptr<Reply> reply;
};

}  // namespace trl::serve
