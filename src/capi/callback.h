// Calls functions of the host, and stores them with their user_data and destroy function, which runs exactly
// once, when the last owner is destroyed.
#pragma once
#include <cxxabi.h>

#include <exception>
#include <utility>

#include "base/error.h"
#include "capi/process/ending.h"
#include "capi/process/process.h"
#include "io/arrow_abi.h"
#include "trl/trl.h"

namespace trl::capi {

[[noreturn]] void fail_thrown(std::string_view which);                  // for the exception in flight
[[noreturn]] void fail_callback(std::string_view which, int64_t code);  // for a callback's return code

// Blocks a thread of an interpreter (CPython) for good once that interpreter has ended: a callback that calls
// back into it would crash.
void stay_out_of_ended_interpreter() noexcept;

// Calls a function of the host and turns its exception into Error(callback). which: "event", "log" ...
template <class Body>
auto call_host(std::string_view which, Body&& body) -> decltype(body()) {
  const CallbackScope scope;
  stay_out_of_ended_interpreter();
  try {
    return body();
  } catch (const abi::__forced_unwind&) {
    park();  // an ending interpreter terminates its threads like this; our frames cannot be unwound
  } catch (...) {
    fail_thrown(which);
  }
}

// The same where nothing may be thrown: the failure is kept, and the call that runs on this thread returns
// it.
template <class Body>
void call_host_and_keep(std::string_view which, Body&& body) noexcept {
  try {
    call_host(which, std::forward<Body>(body));
  } catch (...) {  // even if no memory is left for the message
    keep_failure(std::current_exception());
  }
}

class UserData {
 public:
  UserData(void* data, trl_destroy_fn destroy) noexcept : data_(data), destroy_(destroy) {}
  UserData(UserData&& other) noexcept
      : data_(other.data_), destroy_(std::exchange(other.destroy_, nullptr)) {}
  UserData& operator=(UserData&&) = delete;
  ~UserData() {
    if (destroy_ != nullptr) call_host_and_keep("destroy", [&] { destroy_(data_); });
  }
  void* get() const { return data_; }

 private:
  void* data_;
  trl_destroy_fn destroy_;
};

template <class Function>
struct Callback {
  Function function;
  UserData user_data;
};

// Wraps an Arrow stream of the host in functions that do not throw. Takes stream over and sets its release to
// NULL. If one of its functions throws, the exception is kept as the failure of the call that runs on this
// thread, and the function returns EIO.
ArrowArrayStream guarded_stream(ArrowArrayStream* stream);

}  // namespace trl::capi
