// Errors at the border of the two libraries: one that comes from the other is thrown here, one from here is
// its answer.
#pragma once
#include <new>
#include <optional>
#include <string>

#include "base/error.h"
#include "engine/engine.h"

namespace trl::engine {

class ErrorCapture final : public ErrorSink {
 public:
  void set(int32_t status, std::string_view message, std::string_view key,
           int32_t callback_code) noexcept override {
    try {
      error_.emplace(static_cast<Status>(status), std::string(message), std::string(key), callback_code);
    } catch (const std::bad_alloc&) {
      error_.reset();
    }
  }

  // Checks the outcome of a call that was given this sink. Throws if it is an error; true: ok, false: the
  // end.
  bool check(int32_t status) const {
    if (status >= 0) return status == static_cast<int32_t>(Status::ok);
    if (error_) throw *error_;
    throw Error(static_cast<Status>(status), "failed without a message");
  }

 private:
  std::optional<Error> error_;
};

// Runs body, which returns a status, and catches this side's exceptions: the other library gets a status and
// a message.
template <class Body>
int32_t answer(ErrorSink& error, Body&& body) noexcept {
  try {
    return static_cast<int32_t>(body());
  } catch (const Error& e) {
    error.set(static_cast<int32_t>(e.status()), e.message(), e.key(), e.callback_code());
    return static_cast<int32_t>(e.status());
  } catch (const std::bad_alloc&) {
    error.set(static_cast<int32_t>(Status::out_of_memory), "out of memory", {}, 0);
    return static_cast<int32_t>(Status::out_of_memory);
  } catch (const std::exception& e) {
    error.set(static_cast<int32_t>(Status::internal), e.what(), {}, 0);
    return static_cast<int32_t>(Status::internal);
  }
}

}  // namespace trl::engine
