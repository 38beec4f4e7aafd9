// What the tests of the classes of C++ share.
#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <trl/trl.hpp>
#include <utility>
#include <vector>

namespace cpp_test {

using Json = nlohmann::json;

inline const std::string kModel = std::string(TRL_SOURCE_DIR) + "/tests/golden/models/qwen2";

// Thrown by functions of the host.
struct Oops : std::runtime_error {
  explicit Oops(int n) : std::runtime_error("oops " + std::to_string(n)), number(n) {}
  int number;
};

// The error that a function throws.
template <class Function>
trl::Error error_of(Function function) {
  try {
    function();
  } catch (const trl::Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return trl::Error(TRL_OK, "");
}

}  // namespace cpp_test
