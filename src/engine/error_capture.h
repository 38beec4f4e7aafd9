// Errors at the border of the two libraries: one that comes from the other is thrown here, one from here is
// its answer.
#pragma once
#include <new>
#include <optional>
#include <string>

#include "base/error.h"
#include "engine/host.h"

namespace trl::engine {

class ErrorCapture final : public ErrorSink {
 public:
  void set(const Error& error) noexcept override {
    try {
      error_.emplace(error);
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
  const auto told = [&](const Error& problem) {
    error.set(problem);
    return static_cast<int32_t>(problem.status());
  };
  try {
    try {
      return static_cast<int32_t>(body());
    } catch (const Error& problem) {
      return told(problem);
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& problem) {
      return told(Error(Status::internal, problem.what()));
    }
  } catch (const std::bad_alloc&) {
    return told(Error(Status::out_of_memory, "out of memory"));
  }
}

}  // namespace trl::engine
