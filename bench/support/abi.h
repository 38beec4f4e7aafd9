// Calls of the C ABI whose errors are exceptions.
#pragma once
#include <trl.h>

#include <stdexcept>
#include <string>

namespace trl::bench {

// Throws what the library says.
inline void check(trl_status status, trl_error* error) {
  if (status >= 0) return;
  const std::string message = trl_error_message(error);
  trl_error_destroy(error);
  throw std::runtime_error(message);
}

}  // namespace trl::bench

#define TRL_CHECK(call)               \
  do {                                \
    trl_error* error = nullptr;       \
    const trl_status status = call;   \
    trl::bench::check(status, error); \
  } while (false)
