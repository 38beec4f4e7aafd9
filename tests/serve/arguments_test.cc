// Every function of trl/serve.h with NULL, with a handle of another type, with memory that is not a handle,
// and with a server that was destroyed: an error, never a crash.
#include <gtest/gtest.h>
#include <trl/serve.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace trl::serve::test {
namespace {

struct ArgumentCase {
  const char* name;
  std::function<trl_status(trl_server* server, trl_error** error)> call;
};

std::vector<ArgumentCase> argument_cases() {
  return {
      {"add_model", [](trl_server* s,
                       trl_error** e) { return trl_server_add_model(s, "a", nullptr, nullptr, nullptr, e); }},
      {"add_generator",
       [](trl_server* s, trl_error** e) {
         return trl_server_add_generator(s, "a", nullptr, nullptr, nullptr, e);
       }},
      {"start", [](trl_server* s, trl_error** e) { return trl_server_start(s, e); }},
      {"stop", [](trl_server* s, trl_error** e) { return trl_server_stop(s, 0, e); }},
      {"wait", [](trl_server* s, trl_error** e) { return trl_server_wait(s, 0, e); }},
      {"describe",
       [](trl_server* s, trl_error** e) {
         const char* json = "before";
         const trl_status status = trl_server_describe(s, &json, e);
         EXPECT_EQ(json, nullptr);
         return status;
       }},
      {"set_adapter",
       [](trl_server* s, trl_error** e) { return trl_server_set_adapter(s, nullptr, "a", "b", e); }},
      {"sleep", [](trl_server* s, trl_error** e) { return trl_server_sleep(s, nullptr, 1, nullptr, e); }},
      {"wake_up", [](trl_server* s, trl_error** e) { return trl_server_wake_up(s, nullptr, nullptr, e); }},
  };
}

void expect_refused(trl_server* server, const std::string& why) {
  for (const ArgumentCase& c : argument_cases()) {
    trl_error* error = nullptr;
    EXPECT_EQ(c.call(server, &error), TRL_E_INVALID_ARGUMENT) << c.name;
    ASSERT_NE(error, nullptr) << c.name;
    EXPECT_EQ(trl_error_code(error), TRL_E_INVALID_ARGUMENT) << c.name;
    EXPECT_NE(std::string(trl_error_message(error)).find(why), std::string::npos) << trl_error_message(error);
    trl_error_destroy(error);
    EXPECT_EQ(c.call(server, nullptr), TRL_E_INVALID_ARGUMENT) << c.name;
  }
  trl_server_cancel(server);
  trl_server_destroy(server);
}

TEST(ServeArguments, NullIsRefusedByName) {
  expect_refused(nullptr, "server is NULL");
  EXPECT_EQ(trl_server_create(nullptr, nullptr, nullptr, nullptr), TRL_E_INVALID_ARGUMENT);
}

TEST(ServeArguments, WhatIsNoServerIsRefused) {
  trl_config* config = nullptr;
  ASSERT_EQ(trl_config_create(&config, nullptr), TRL_OK);
  expect_refused(reinterpret_cast<trl_server*>(config), "server: a trl_server is required");
  trl_config_destroy(config);
  alignas(64) char memory[256] = {};
  expect_refused(reinterpret_cast<trl_server*>(memory), "server: a trl_server is required");
  expect_refused(reinterpret_cast<trl_server*>(uintptr_t{8}), "server: a trl_server is required");
}

TEST(ServeArguments, ADestroyedServerIsRefused) {
  trl_server* server = nullptr;
  ASSERT_EQ(trl_server_create(nullptr, nullptr, &server, nullptr), TRL_OK);
  trl_server_destroy(server);
  expect_refused(server, "already destroyed");
}

TEST(ServeArguments, OutputsAndNamesAreNeeded) {
  trl_server* server = nullptr;
  ASSERT_EQ(trl_server_create(nullptr, nullptr, &server, nullptr), TRL_OK);
  EXPECT_EQ(trl_server_describe(server, nullptr, nullptr), TRL_E_INVALID_ARGUMENT);
  for (const char* name : {static_cast<const char*>(nullptr), "\xff"}) {
    EXPECT_EQ(trl_server_add_model(server, name, nullptr, nullptr, nullptr, nullptr), TRL_E_INVALID_ARGUMENT);
    EXPECT_EQ(trl_server_add_generator(server, name, nullptr, nullptr, nullptr, nullptr),
              TRL_E_INVALID_ARGUMENT);
    EXPECT_EQ(trl_server_set_adapter(server, nullptr, name, "a", nullptr), TRL_E_INVALID_ARGUMENT);
  }
  trl_server_destroy(server);
}

}  // namespace
}  // namespace trl::serve::test
