// An ErrorSink that keeps the other library's error, to be thrown on this side.
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

}  // namespace trl::engine
