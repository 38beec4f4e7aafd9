// What a call throws: its status and message; ok and nothing where it returns.
#pragma once
#include <functional>
#include <string>
#include <utility>

#include "base/error.h"

namespace trl::test {

inline std::pair<Status, std::string> error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return {error.status(), error.message()};
  }
  return {Status::ok, ""};
}

}  // namespace trl::test
