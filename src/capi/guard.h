// The boundary of the library: the body of every exported function is one call of guard() or answer(), both
// noexcept. guard() is for functions that return a status, answer() for accessors, which work inside
// callbacks too.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/text/utf8.h"
#include "capi/handle.h"
#include "capi/process/process.h"
#include "trl/trl.h"

// Made from an exception. Reporting out of memory cannot fail: that error is a constant.
struct trl_error : trl::capi::Head {
  explicit trl_error(trl::Error given) : Head(trl::capi::Tag::error), error(std::move(given)) {}
  const trl::Error error;
};

namespace trl::capi {

// Returns the status of the exception in flight; *error, if wanted, receives the message.
trl_status report_exception(trl_error** error) noexcept;

// anywhere: inside callbacks too; such a function calls none. rollouts: outside callbacks, and in a function
// of the host that is asked for a rollout.
enum class From : uint8_t { anywhere, outside_callbacks, rollouts };

// The log of the runtime that an object was created with, or null.
template <class T>
std::shared_ptr<RuntimeLog> log_of(const T& object) noexcept {
  if constexpr (requires { object.runtime()->shared_log(); })
    return object.runtime()->shared_log();
  else if constexpr (requires { object.shared_log(); })
    return object.shared_log();
  else
    return nullptr;
}

// Ends a handle's life. In a forked child it leaks instead, since the locks and threads of the parent do not
// exist there, and also when the process is ending. An exception of the host's destroy function goes to the
// log.
template <class H>
void destroy(H* handle) noexcept {
  if (handle == nullptr || !handle->is(H::tag) || handle->inherited()) return;
  const std::shared_ptr<RuntimeLog> log = log_of(*handle->object);
  handle->retire();
  const CallScope scope;
  if (scope.allowed()) delete handle;
  scope.log_failure(log.get());
}

// Destroys the objects that a failed call had already made for its caller.
template <class Out>
void take_back(Out* out) noexcept {
  if (out == nullptr) return;
  if constexpr (requires(Out handle) { handle->retire(); }) destroy(*out);
  if constexpr (requires(Out tensor) { tensor->deleter(tensor); })
    if (*out != nullptr) (*out)->deleter(*out);
  *out = Out{};
}

// Runs body. If a callback threw meanwhile, that failure takes precedence over the result of the call. What
// is called within a callback is neither held nor ended with the call around it.
template <From kFrom, class Body>
trl_status run(Body body) {
  const CallScope scope;
  scope.require();
  const bool within = kFrom == From::anywhere && own_interrupt() == nullptr;
  const base::InterruptScope interrupted_by(within ? nullptr : base::thread_interrupt());
  trl_status status = TRL_OK;
  try {
    Body own = std::move(body);  // its members are destroyed within the call
    if constexpr (std::is_void_v<decltype(own())>)
      own();
    else
      status = static_cast<trl_status>(own());
  } catch (...) {
    scope.throw_failure();
    throw;
  }
  scope.throw_failure();
  return status;
}

// Runs body, which returns a Status or nothing; outs are 0 or NULL unless it set them.
template <From kFrom, class Body, class... Outs>
trl_status guard_outs(trl_error** error, Body&& body, Outs*... outs) noexcept {
  if (error != nullptr) *error = nullptr;
  ((outs != nullptr ? void(*outs = Outs{}) : void()), ...);
  try {
    if constexpr (kFrom == From::anywhere)
      check_process();
    else
      check_entry(/*in_rollout=*/kFrom == From::rollouts);
    return run<kFrom>(std::forward<Body>(body));
  } catch (...) {
    const trl_status status = report_exception(error);
    (take_back(outs), ...);
    return status;
  }
}

// guard(error, outs..., body)
template <From kFrom = From::outside_callbacks, class Body>
trl_status guard(trl_error** error, Body&& body) noexcept {
  return guard_outs<kFrom>(error, std::forward<Body>(body));
}
template <From kFrom = From::outside_callbacks, class Out, class Body>
trl_status guard(trl_error** error, Out* out, Body&& body) noexcept {
  return guard_outs<kFrom>(error, std::forward<Body>(body), out);
}
template <From kFrom = From::outside_callbacks, class First, class Second, class Body>
trl_status guard(trl_error** error, First* first, Second* second, Body&& body) noexcept {
  return guard_outs<kFrom>(error, std::forward<Body>(body), first, second);
}

template <class T, class Body>
auto answer(T fallback, Body&& body) noexcept -> decltype(body()) {
  try {
    return body();
  } catch (...) {
    return fallback;
  }
}

// Checks a NUL-terminated argument.
inline std::string_view text(const char* value, std::string_view name) {
  if (value == nullptr) fail_null(name);
  const std::string_view view(value);
  const size_t bad = base::find_invalid_utf8(view);
  if (bad != base::kValid) fail(Status::invalid_argument, "{} is not UTF-8: byte {} is invalid", name, bad);
  return view;
}

inline std::string path_of(const char* value, std::string_view name = "path") {
  const std::string_view path = text(value, name);
  if (path.empty()) fail(Status::invalid_argument, "{} is empty", name);
  return std::string(path);
}

inline void need(const void* out, std::string_view name) {
  if (out == nullptr) fail_null(name);
}

// Checks that an array has no more elements than one can have, such as a negative number in a size_t.
template <class T>
void check_count(size_t count, std::string_view name, std::string_view what) {
  constexpr size_t kMost = PTRDIFF_MAX / sizeof(T);
  if (count > kMost)
    fail(Status::invalid_argument, "{}: a {} of {} is too large: it is at most {}", name, what, count, kMost);
}

// Checks an array.
template <class T>
std::span<const T> elements(const T* data, size_t count, std::string_view name) {
  check_count<T>(count, name, "count");
  if (count > 0) need(data, name);
  return {data, count};
}

// Checks a payload with its size.
inline std::string_view bytes(const char* data, size_t size, std::string_view name) {
  check_count<char>(size, name, "size");
  if (data == nullptr && size != 0)
    fail(Status::invalid_argument, "{} is NULL with a size of {}", name, size);
  return size == 0 ? std::string_view() : std::string_view(data, size);
}

inline std::string_view utf8(const char* data, size_t size, std::string_view name) {
  const std::string_view view = bytes(data, size, name);
  const size_t bad = base::find_invalid_utf8(view);
  if (bad != base::kValid) fail(Status::format, "{} is not UTF-8: byte {} is invalid", Place::in(name), bad);
  return view;
}

}  // namespace trl::capi
