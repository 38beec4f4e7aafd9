// Status codes and the one exception type of the project. Every room throws trl::Error; capi/ and entry/ turn
// it into a status and a message before it leaves a library. Values equal those of include/trl/trl.h.
#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include "base/place.h"

namespace trl {

enum class Status : int32_t {
  ok = 0,
  end = 1,
  invalid_argument = -1,
  invalid_config = -2,
  not_found = -3,
  io = -4,
  format = -5,
  unsupported = -6,
  out_of_memory = -7,
  out_of_device_memory = -8,
  device = -9,
  distributed = -10,
  cancelled = -11,
  busy = -12,
  callback = -13,
  internal = -14,
};

// message: one line, impersonal, names the key, file, row or tensor, the value, and what would be accepted.
class Error : public std::exception {
 public:
  Error(Status status, std::string message, std::string key = {}, int32_t callback_code = 0, Place place = {})
      : status_(status),
        message_(std::move(message)),
        key_(std::move(key)),
        callback_code_(callback_code),
        place_(std::move(place)) {}
  Status status() const { return status_; }
  const std::string& message() const { return message_; }
  const std::string& key() const { return key_; }           // configuration key at fault, or empty
  int32_t callback_code() const { return callback_code_; }  // the value that a host's callback returned, or 0
  const Place& place() const { return place_; }             // in what was read; unknown: none
  const char* what() const noexcept override { return message_.c_str(); }

  // Returns the same error in other words, for another key, or at another place, which it gets only if it is
  // about what was given or read: not if the call was cancelled, or memory was short.
  Error with(std::string message) const { return with(std::move(message), key_); }
  Error with(std::string message, std::string_view key) const {
    return {status_, std::move(message), std::string(key), callback_code_, place_};
  }
  Error at(const Place& place) const {
    const bool given = status_ <= Status::invalid_argument && status_ >= Status::unsupported;
    return {status_, message_, key_, callback_code_, given ? place : place_};
  }

 private:
  Status status_;
  std::string message_;
  std::string key_;
  int32_t callback_code_;
  Place place_;
};

// fail(Status::io, "{}: cannot be read: {}", Place{path}, reason); a place in the message is the error's,
// too.
template <typename... Args>
[[noreturn]] void fail(Status status, fmt::format_string<Args...> text, Args&&... args) {
  throw Error(status, fmt::format(text, std::forward<Args>(args)...), {}, 0, place_among(args...));
}

// Throws like fail(), for a configuration key.
template <typename... Args>
[[noreturn]] void fail_key(std::string_view key, fmt::format_string<Args...> text, Args&&... args) {
  throw Error(Status::invalid_config, fmt::format(text, std::forward<Args>(args)...), std::string(key), 0,
              place_among(args...));
}

// Runs body, whose errors have this place (Error::at) unless they have their own.
template <class Body>
decltype(auto) placed(const Place& place, Body&& body) {
  try {
    return body();
  } catch (const Error& error) {
    if (error.place().is_known()) throw;
    throw error.at(place);
  }
}

// Runs body, which reads a file; errors that name a key are about the key.
template <class Body>
decltype(auto) reading(std::string_view file, Body&& body) {
  try {
    return body();
  } catch (const Error& error) {
    if (!error.key().empty()) throw;
    placed(Place::in(file), [] { throw; });
    throw;
  }
}

}  // namespace trl
