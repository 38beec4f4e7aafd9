// How requests are refused: vLLM's error object with its status.
#pragma once
#include <exception>
#include <string>
#include <string_view>

#include "serve/http/reply.h"
#include "trl/trl.h"

namespace trl::serve {

// message: one sentence that says what to change; param: the field at fault, or empty.
class Refusal final : public std::exception {
 public:
  Refusal(int http_status, std::string text, std::string field = {})
      : status(http_status), message(std::move(text)), param(std::move(field)) {}
  const char* what() const noexcept override { return message.c_str(); }
  int status;
  std::string message, param;
};

std::string error_json(const Refusal& refusal);  // {"error": {message, type, param, code}}
Answer answer_of(const Refusal& refusal);
// Answers TRL's old routes: FastAPI's 422 in place of 400, and else as answer_of.
Answer old_answer_of(const Refusal& refusal);

// Returns the refusal of a request for which a call of the library failed. key: of the configuration, or
// empty; the message names the request's own field for it.
Refusal refusal_of(trl_status status, std::string_view message, std::string_view key);
Refusal refusal_of(const trl_error* error);
// The same for the exception in flight.
Refusal current_refusal() noexcept;
Refusal refusal_of(const std::exception_ptr& why) noexcept;  // not null
// Returns whether the exception in flight says that there is no memory.
bool is_out_of_memory() noexcept;
Refusal no_memory() noexcept;
Refusal stopping() noexcept;  // of requests that come too late
// Returns a refusal; without memory for its text, no_memory().
Refusal refused(int status, std::string_view message) noexcept;

// Sends the answer that `make` builds; without memory for it, the reply gives up.
template <class Make>
void send_answer(Reply& reply, const Make& make) noexcept {
  try {
    reply.send(make());
  } catch (...) {
    reply.give_up();
  }
}
inline void send_refusal(Reply& reply, const Refusal& refusal,
                         Answer (*refuse)(const Refusal&) = answer_of) noexcept {
  send_answer(reply, [&] { return refuse(refusal); });
}

}  // namespace trl::serve
