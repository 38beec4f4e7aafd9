// A server of one model on any free port.
#pragma once
#include <gtest/gtest.h>
#include <trl/serve.h>

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "http_client.h"

namespace trl::serve::test {

using Json = nlohmann::ordered_json;
using Options = std::initializer_list<std::pair<const char*, const char*>>;

class RunningServer {
 public:
  // model: or null, with a fake library.
  explicit RunningServer(Options options = {}, trl_model* model = nullptr, trl_runtime* runtime = nullptr) {
    trl_config* config = nullptr;
    trl_error* error = nullptr;
    EXPECT_EQ(trl_config_create(&config, nullptr), TRL_OK);
    EXPECT_EQ(trl_config_set(config, "serve.port", "0", nullptr), TRL_OK);
    for (const auto& [key, value] : options)
      EXPECT_EQ(trl_config_set(config, key, value, nullptr), TRL_OK) << key;
    EXPECT_EQ(trl_server_create(runtime, config, &server_, &error), TRL_OK) << trl_error_message(error);
    EXPECT_EQ(trl_server_add_model(server_, "tiny", model, nullptr, nullptr, &error), TRL_OK)
        << trl_error_message(error);
    trl_config_destroy(config);
    start();
  }
  ~RunningServer() { trl_server_destroy(server_); }
  RunningServer(const RunningServer&) = delete;
  RunningServer& operator=(const RunningServer&) = delete;

  void start() {
    trl_error* error = nullptr;
    ASSERT_EQ(trl_server_start(server_, &error), TRL_OK) << trl_error_message(error);
    port_ = describe().value("port", 0);
  }
  Json describe() {
    const char* json = nullptr;
    EXPECT_EQ(trl_server_describe(server_, &json, nullptr), TRL_OK);
    return Json::parse(json);
  }
  trl_server* get() const { return server_; }
  int port() const { return port_; }
  Response get(const std::string& path) { return Client(port_).get(path); }
  Response post(const std::string& path, const std::string& json) { return Client(port_).post(path, json); }
  // The JSON of an answer that must be 200.
  Json ask(const std::string& path, const Json& body) {
    const Response response = post(path, body.dump());
    EXPECT_EQ(response.status, 200) << response.body;
    return Json::parse(response.body, nullptr, false);
  }

 private:
  trl_server* server_ = nullptr;
  int port_ = 0;
};

// The events of a stream, without the last "[DONE]", which has to be there.
inline std::vector<Json> events_of(const std::string& body) {
  std::vector<Json> events;
  bool done = false;
  for (size_t at = 0; at < body.size();) {
    const size_t end = body.find("\n\n", at);
    EXPECT_NE(end, body.npos);
    if (end == body.npos) break;
    const std::string line = body.substr(at, end - at);
    EXPECT_TRUE(line.starts_with("data: ")) << line;
    EXPECT_FALSE(done) << line;
    done = line == "data: [DONE]";
    if (!done) events.push_back(Json::parse(line.substr(6), nullptr, false));
    at = end + 2;
  }
  EXPECT_TRUE(done);
  return events;
}

}  // namespace trl::serve::test
