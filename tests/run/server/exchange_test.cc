// Requests to a server: which are repeated, how often, and what becomes of one that fails.
#include "run/server/exchange.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "run/server/scripted_server.h"
#include "run/server/unused_server.h"
#include "run/server/vllm_server.h"
#include "support/error_of.h"

namespace trl::run {
namespace {

using http::Outcome;
using test::KeptLog;
using test::ScriptedServer;
using Answered = ScriptedServer::Answered;

Error error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  return {Status::ok, ""};
}

TEST(ServerExchange, RepeatsAPassingStatusThreeTimes) {
  for (const int32_t status : {500, 502, 503}) {
    ScriptedServer server([&](const auto&) { return Answered{status, "busy"}; });
    KeptLog log;
    Exchange exchange = server.exchange(log);
    EXPECT_EQ(exchange.post("/v1/completions", {{"n", 1}}, true).status, status);
    EXPECT_EQ(server.asked.size(), 4u);
    EXPECT_EQ(log.lines.size(), 3u);
  }
}

TEST(ServerExchange, RepeatsAConnectionFiveTimes) {
  ScriptedServer server([](const auto&) { return Answered{.outcome = Outcome::broken}; });
  KeptLog log;
  Exchange exchange = server.exchange(log);
  const Error error = error_of([&] { exchange.get("/v1/models"); });
  EXPECT_EQ(error.status(), Status::io);
  EXPECT_EQ(error.key(), "vllm_server_base_url");
  EXPECT_EQ(error.message(),
            "vllm_server_base_url: http://server:8000/v1/models: no route to it (6 attempts)");
  EXPECT_EQ(server.asked.size(), 6u);
}

// A request that may have changed the server is sent again only if it cannot have reached it.
TEST(ServerExchange, RepeatsARequestOnlyIfThatIsHarmless) {
  KeptLog log;
  ScriptedServer server([](const auto&) { return Answered{.outcome = Outcome::broken}; });
  Exchange exchange = server.exchange(log);
  EXPECT_EQ(error_of([&] { exchange.post("/update", {}, false); }).status(), Status::io);
  EXPECT_EQ(server.asked.size(), 1u);
  ScriptedServer failing([](const auto&) { return Answered{503}; });
  EXPECT_EQ(failing.exchange(log).post("/update", {}, false).status, 503);
  EXPECT_EQ(failing.asked.size(), 1u);
  ScriptedServer away([](const auto&) { return Answered{.outcome = Outcome::unreached}; });
  EXPECT_EQ(error_of([&] { away.exchange(log).post("/update", {}, false); }).status(), Status::io);
  EXPECT_EQ(away.asked.size(), 6u);
}

TEST(ServerExchange, AnAnswerThatIsTooLargeIsNotAskedForAgain) {
  KeptLog log;
  ScriptedServer server([](const auto&) { return Answered{.outcome = Outcome::too_large}; });
  Exchange exchange = server.exchange(log);
  EXPECT_EQ(error_of([&] { exchange.get("/x"); }).status(), Status::io);
  EXPECT_EQ(server.asked.size(), 1u);
}

TEST(ServerExchange, GoesOnWithAServerThatComesBack) {
  int left = 2;
  ScriptedServer server([&](const auto&) {
    return left-- > 0 ? Answered{.outcome = Outcome::unreached} : Answered{200, R"({"a": [1, NaN]})"};
  });
  KeptLog log;
  Exchange exchange = server.exchange(log);
  EXPECT_EQ(exchange.get_json("/x").at("a").at(0), 1);
  EXPECT_EQ(server.asked.size(), 3u);
}

TEST(ServerExchange, SaysWhatTheServerAnswered) {
  KeptLog log;
  ScriptedServer server([](const auto&) { return Answered{400, "{\"error\":\n\"max_tokens\"}"}; });
  Exchange exchange = server.exchange(log, "secret");
  const Error error = error_of([&] { exchange.post_json("/v1/completions", {}, true); });
  EXPECT_EQ(error.status(), Status::io);
  EXPECT_TRUE(error.message().find("Request failed: 400, {\"error\":") != std::string::npos)
      << error.message();
  EXPECT_EQ(error.message().find("secret"), std::string::npos);
  EXPECT_EQ(std::ranges::count(server.asked.at(0).headers, "Authorization: Bearer secret"), 1);
  EXPECT_EQ(Exchange::shown({404, "no\nsuch \xff"}), "no such \uFFFD");
  ScriptedServer odd([](const auto&) { return Answered{200, "<html>"}; });
  EXPECT_EQ(error_of([&] { odd.exchange(log).get_json("/x"); }).status(), Status::io);
}

// What the parts of a server answer; an empty answer: 404.
struct Routes {
  std::string models = R"({"data": [{"id": "qwen"}]})", info = {};
  Answered operator()(const ScriptedServer::Asked& asked) const {
    if (asked.path == "/health") return {200};
    const std::string& body = asked.path == "/v1/models" ? models : info;
    return body.empty() ? Answered{404} : Answered{200, body};
  }
};

TEST(ServerFound, IsKnownByItsAnswers) {
  KeptLog log;
  Routes routes;
  routes.info = R"({"vllm_config": {"model_config": {"logprobs_mode": "processed_logprobs"}}})";
  {
    ScriptedServer server(routes);
    Exchange exchange = server.exchange(log);
    const VllmServer found = find_server(exchange, 1, log);
    EXPECT_EQ(found.protocol, VllmServer::Protocol::openai);
    EXPECT_EQ(found.model, "qwen");
    EXPECT_FALSE(found.ours);
    EXPECT_TRUE(log.lines.empty());
    EXPECT_EQ(server.asked.size(), 3u);  // each path once
  }
  routes.info = R"({"vllm_config": {"model_config": {"logprobs_mode": "raw_logprobs"}}, "libtrl": {}})";
  {
    ScriptedServer server(routes);
    Exchange exchange = server.exchange(log);
    EXPECT_TRUE(find_server(exchange, 1, log).ours);
    EXPECT_TRUE(log.warns_of("raw_logprobs"));
  }
  routes.info.clear();
  {
    ScriptedServer server(routes);
    Exchange exchange = server.exchange(log);
    EXPECT_EQ(find_server(exchange, 1, log).model, "qwen");
    EXPECT_TRUE(log.warns_of("VLLM_SERVER_DEV_MODE=1"));
  }
  routes.models.clear();
  ScriptedServer server(routes);
  Exchange exchange = server.exchange(log);
  EXPECT_EQ(find_server(exchange, 1, log).protocol, VllmServer::Protocol::old);
}

// TRL's server of 1.10 leads /health to /health/.
TEST(ServerFound, IsWaitedFor) {
  KeptLog log;
  ScriptedServer old([](const ScriptedServer::Asked& asked) {
    return asked.path == "/health" ? Answered{307} : Answered{asked.path == "/health/" ? 200 : 404};
  });
  Exchange exchange = old.exchange(log);
  EXPECT_EQ(find_server(exchange, 0, log).protocol, VllmServer::Protocol::old);
  ScriptedServer away([](const auto&) { return Answered{.outcome = Outcome::unreached}; });
  Exchange other = away.exchange(log);
  const Error error = error_of([&] { find_server(other, 0, log); });
  EXPECT_EQ(error.status(), Status::io);
  EXPECT_TRUE(error.message().find("no route to it, 0 s long (vllm_server_timeout)") != std::string::npos)
      << error.message();
}

TEST(ServerFound, ItsReasonIsToldIfItRefuses) {
  KeptLog log;
  ScriptedServer server([](const auto&) { return Answered{403, "Host: a is not a name of this server"}; });
  Exchange exchange = server.exchange(log);
  const Error error = error_of([&] { find_server(exchange, 0, log); });
  EXPECT_NE(error.message().find("it answers 403, Host: a is not a name"), std::string::npos)
      << error.message();
}

TEST(UnusedServer, IsToldOfOnlyIfItAnswers) {
  for (const int32_t status : {200, 404, 0}) {
    ScriptedServer server([&](const auto&) {
      return Answered{status, "", status == 0 ? Outcome::unreached : Outcome::answered};
    });
    KeptLog log;
    Exchange exchange = server.exchange(log);
    tell_unused_server(exchange, log);
    ASSERT_EQ(server.asked.size(), 1u);
    EXPECT_EQ(server.asked[0].path, "/health");
    ASSERT_EQ(log.lines.size(), status == 200 ? 1u : 0u);
    if (status == 200) {
      EXPECT_NE(log.lines[0].second.find("http://server:8000 and is not used"), std::string::npos);
      EXPECT_NE(log.lines[0].second.find("give vllm_mode: server"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace trl::run
