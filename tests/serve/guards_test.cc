// Limits, keys, slow and vanished clients, and the end of a server, against a fake library.
#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include "fake_library.h"
#include "running_server.h"

namespace trl::serve::test {
namespace {

using namespace std::chrono_literals;

// Waits until a condition holds, for a few seconds.
template <class Condition>
bool soon(Condition condition) {
  for (int i = 0; i < 500; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(10ms);
  }
  return false;
}

struct Slowly {  // steps take a while
  explicit Slowly(int milliseconds) { fake().step_milliseconds = milliseconds; }
  ~Slowly() { fake().step_milliseconds = 0; }
};

size_t threads() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& one : std::filesystem::directory_iterator("/proc/self/task")) ++count;
  return count;
}

// A thread that was joined may be listed for a moment.
bool comes_to_threads(size_t count) {
  for (int i = 0; i < 200 && threads() != count; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return threads() == count;
}

size_t descriptors() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& one : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

// A limit of 1e300 seconds is never reached; converted to nanoseconds it would overflow.
TEST(Times, MayBeLongerThanClocksCount) {
  RunningServer server({{"serve.idle_timeout", "1e300"},
                        {"serve.header_timeout", "1e300"},
                        {"serve.body_timeout", "1e300"},
                        {"serve.write_timeout", "1e300"}});
  Client client(server.port());
  for (int i = 0; i < 2; ++i) {
    std::this_thread::sleep_for(20ms);
    EXPECT_EQ(client.post("/v1/completions", R"({"prompt": "Hi", "max_tokens": 1})").status, 200);
  }
  const Slowly slowly(5);
  client.send(request("POST", "/v1/completions", R"({"prompt": "Hi", "max_tokens": 20})"));
  ASSERT_TRUE(soon([&] { return server.describe()["models"][0]["running"] == 1; }));
  EXPECT_EQ(trl_server_stop(server.get(), 1e300, nullptr), TRL_OK);
  const Response last = client.read();
  EXPECT_EQ(last.status, 200) << last.body;
  EXPECT_NE(last.body.find("\"length\""), std::string::npos) << last.body;
}

TEST(RequestBytes, TornAtEveryByte) {
  RunningServer server;
  const std::string bytes = request("POST", "/v1/completions", R"({"prompt": "Hi", "max_tokens": 1})");
  Client client(server.port());
  for (size_t i = 0; i < bytes.size(); i += 7) {
    client.send(bytes.substr(0, i));
    std::this_thread::sleep_for(1ms);
    client.send(bytes.substr(i));
    const Response response = client.read();
    ASSERT_EQ(response.status, 200) << i << response.body;
  }
}

TEST(RequestBytes, PipelinedOnesAreAnsweredInOrder) {
  RunningServer server;
  Client client(server.port());
  client.send(request("GET", "/version") + request("GET", "/get_world_size") + request("GET", "/health"));
  EXPECT_EQ(client.read().body, R"({"version":"0.1.0"})");
  EXPECT_EQ(client.read().body, R"({"world_size":1})");
  EXPECT_EQ(client.read().status, 200);
}

TEST(RequestBytes, ChunkedBodiesAndContinue) {
  RunningServer server;
  Client client(server.port());
  client.send(
      "POST /detokenize HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nTransfer-Encoding: "
      "chunked\r\n\r\n");
  ASSERT_TRUE(client.read_until("100 Continue\r\n\r\n"));
  client.read();
  client.send("c\r\n{\"tokens\": [\r\n4\r\n72]}\r\n0\r\n\r\n");
  EXPECT_EQ(client.read().body, R"({"prompt":"H"})");
}

// The last chunk is the first, and comes in any pieces.
TEST(RequestBytes, AnEmptyChunkedBodyMayBeTorn) {
  RunningServer server;
  const std::string end = "0\r\n\r\n";
  for (size_t first = 0; first < end.size(); ++first) {
    for (size_t second = first + 1; second < end.size(); ++second) {
      Client client(server.port());
      client.send(
          "POST /reset_prefix_cache HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
      std::this_thread::sleep_for(2ms);
      client.send(end.substr(0, first));
      std::this_thread::sleep_for(2ms);
      client.send(end.substr(first, second - first));
      std::this_thread::sleep_for(2ms);
      client.send(end.substr(second));
      EXPECT_EQ(client.read().status, 200) << first << " " << second;
    }
  }
}

TEST(RequestBytes, AnOldClientGetsAStreamUntilTheEnd) {
  RunningServer server;
  Client client(server.port());
  const std::string body = R"({"prompt": "Hi", "max_tokens": 2, "stream": true})";
  client.send(
      fmt::format("POST /v1/completions HTTP/1.0\r\nContent-Length: {}\r\n\r\n{}", body.size(), body));
  EXPECT_TRUE(client.read_until("data: [DONE]\n\n"));
  EXPECT_TRUE(client.closed());
  EXPECT_EQ(client.bytes().find("chunked"), std::string::npos);
}

TEST(RequestBytes, EmptyLinesBeforeARequestAreSkipped) {
  RunningServer server;
  for (const char* lines : {"\r\n", "\r\n\r\n\r\n"}) {
    Client whole(server.port()), torn(server.port());
    whole.send(lines + request("GET", "/health") + lines + request("GET", "/version") + lines);
    EXPECT_EQ(whole.read().status, 200);
    EXPECT_EQ(whole.read().body, R"({"version":"0.1.0"})");
    for (const char byte : lines + request("GET", "/health")) {
      torn.send(std::string(1, byte));
      std::this_thread::sleep_for(1ms);
    }
    EXPECT_EQ(torn.read().status, 200);
  }
}

TEST(RequestBytes, AClientOfHttp10GetsNoContinue) {
  RunningServer server;
  Client client(server.port());
  client.send("POST /detokenize HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 16\r\n\r\n");
  client.send(R"({"tokens": [72]})");
  EXPECT_TRUE(client.read_until("{\"prompt\":\"H\"}"));
  EXPECT_EQ(client.bytes().find("Continue"), std::string::npos);
}

TEST(RequestBytes, ALineFeedAloneIsNamed) {
  RunningServer server;
  Client client(server.port());
  client.send("GET /health HTTP/1.1\nHost: localhost\n\n");
  const std::string body = client.read().body;
  EXPECT_NE(body.find("line feed"), std::string::npos) << body;
}

TEST(RequestBytes, WhatIsNotHttpIsRefused) {
  RunningServer server;
  const std::pair<std::string, int> bad[] = {
      {"nonsense\r\n\r\n", 400},
      {"GET / HTTP/3.0\r\n\r\n", 505},
      {"GET nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
      {"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nTransfer-Encoding: "
       "chunked\r\n\r\n0\r\n\r\n",
       400},
      {"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n", 400},
      {"GET /health HTTP/1.1\r\n\r\n", 400},
      {"GET /health HTTP/1.1\r\nHost: localhost\r\nhost: localhost\r\n\r\n", 400},
      {"GET /health HTTP/1.1\nHost: localhost\n\n", 400},
      {"\rGET /health HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
      {"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n", 501},
      {"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
       501},
      {"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: "
       "chunked\r\n\r\n0\r\n\r\n",
       400},
      {request("GET", "/health", "", "X-Long: " + std::string(4000, 'a') + "\r\n"), 431},
      {request("POST", "/tokenize", std::string(20000, ' ')), 413},
      {"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: "
       "2\r\n\r\n{}",
       415},
      {request("POST", "/tokenize", "\x1f\x8b", "Content-Encoding: gzip\r\n"), 415}};
  for (const auto& [bytes, status] : bad) {
    Client client(server.port());
    client.send(bytes);
    EXPECT_EQ(client.read().status, status) << bytes.substr(0, 60);
    EXPECT_TRUE(client.closed()) << bytes.substr(0, 60);
  }
  Client chunked(server.port());
  chunked.send("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n4000\r\n" +
               std::string(0x4000, ' '));
  EXPECT_EQ(chunked.read().status, 413);
  Client huge(server.port());
  huge.send(
      "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n");
  EXPECT_EQ(huge.read().status, 413);
  EXPECT_EQ(server.get("/health").status, 200);
}

TEST(Limits, ASlowWriterIsToldAndClosed) {
  RunningServer server;
  Client head(server.port()), body(server.port());
  head.send("GET /health HT");
  body.send("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20\r\n\r\n{");
  EXPECT_EQ(head.read().status, 408);
  EXPECT_EQ(body.read().status, 408);
  EXPECT_TRUE(head.closed());
  EXPECT_TRUE(body.closed());
}

TEST(Limits, TheQueueIsBounded) {
  const Slowly slowly(20);
  RunningServer server({{"serve.max_queue", "2"}});
  Client first(server.port()), second(server.port());
  const std::string body = R"({"prompt": "Hi", "max_tokens": 30})";
  first.send(request("POST", "/v1/completions", body));
  second.send(request("POST", "/v1/completions", body));
  ASSERT_TRUE(soon([&] { return server.describe()["models"][0]["requests"] == 2; }));
  const Response third = server.post("/v1/completions", body);
  EXPECT_EQ(third.status, 429);
  EXPECT_TRUE(third.fields.contains("retry-after"));
  EXPECT_EQ(first.read().status, 200);
  EXPECT_EQ(second.read().status, 200);
}

TEST(Limits, ConnectionsBeyondTheMostWait) {
  RunningServer server({{"serve.max_connections", "2"}});
  auto first = std::make_unique<Client>(server.port());
  Client second(server.port());
  EXPECT_EQ(first->get("/health").status, 200);
  EXPECT_EQ(second.get("/health").status, 200);
  Client third(server.port());
  third.send(request("GET", "/health"));
  EXPECT_EQ(third.read(0.2).status, 0);
  first.reset();
  EXPECT_EQ(third.read().status, 200);
}

TEST(Limits, ARequestThatTakesTooLongEndsWithAbort) {
  const Slowly slowly(50);
  RunningServer server({{"serve.request_timeout", "0.3"}});
  const Json answer = server.ask("/v1/completions", {{"prompt", "Hi"}, {"max_tokens", 100}});
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "abort");
  EXPECT_FALSE(answer["choices"][0]["text"].get<std::string>().empty());
}

TEST(Keys, OneOfThemIsNeeded) {
  RunningServer server({{"serve.api_key", R"(["first", "second"])"}});
  Client client(server.port());
  EXPECT_EQ(client.get("/health").status, 200);
  const Response without = client.get("/v1/models");
  EXPECT_EQ(without.status, 401);
  EXPECT_EQ(without.fields.at("www-authenticate"), "Bearer");
  for (const char* wrong :
       {"Bearer third", "Bearer ", "Basic first", "first", "Bearer firs", "Bearer first "})
    EXPECT_EQ(Client(server.port()).get("/v1/models", fmt::format("Authorization: {}\r\n", wrong)).status,
              std::string(wrong) == "Bearer first " ? 200 : 401)  // spaces at the end belong to no field
        << wrong;
  for (const char* right : {"Bearer first", "bearer second"})
    EXPECT_EQ(Client(server.port()).get("/v1/models", fmt::format("Authorization: {}\r\n", right)).status,
              200);
  EXPECT_EQ(server.describe().dump().find("first"), std::string::npos);
}

int64_t held_bytes(RunningServer& server) {
  const std::string metrics = server.get("/metrics").body, name = "\ntrl_held_bytes ";
  return std::stoll(metrics.substr(metrics.find(name) + name.size()));
}

TEST(HeldBytes, BodiesOfAllConnectionsTogetherAreLimited) {
  RunningServer server(
      {{"serve.max_body_bytes", "300000"}, {"serve.max_held_bytes", "600000"}, {"serve.body_timeout", "20"}});
  const std::string all =
      request("POST", "/tokenize", R"({"prompt": ")" + std::string(200000, 'a') + R"("})");
  Client slow(server.port()), other(server.port()), chunks(server.port());
  slow.send(all.substr(0, all.size() - 1000));
  ASSERT_TRUE(soon([&] { return held_bytes(server) > 500000; }));  // a string has room for more
  other.send(all.substr(0, all.find("\r\n\r\n") + 4));
  const Response refused = other.read();
  EXPECT_EQ(refused.status, 503);
  EXPECT_TRUE(refused.fields.contains("retry-after"));
  EXPECT_NE(refused.body.find("serve.max_held_bytes"), std::string::npos) << refused.body;
  chunks.send("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n186a0\r\n" +
              std::string(100000, ' '));
  EXPECT_EQ(chunks.read().status, 503);
  EXPECT_EQ(server.post("/tokenize", R"({"prompt": "a"})").status, 200);  // small ones have room
  slow.send(all.substr(all.size() - 1000));
  EXPECT_EQ(slow.read().status, 200);
  EXPECT_TRUE(soon([&] { return held_bytes(server) == 0; }));
}

// Returns how many bytes of a connection the system takes without a reader.
int64_t system_bytes() {
  int64_t least = 0, usual = 0, most = 0;
  std::ifstream("/proc/sys/net/ipv4/tcp_wmem") >> least >> usual >> most;
  return most;
}

TEST(HeldBytes, AnswersThatAreNotTakenCount) {
  if (system_bytes() > 4'194'304) GTEST_SKIP() << "the system takes the whole answer";
  RunningServer server({{"serve.max_body_bytes", "2000000"},
                        {"serve.max_held_bytes", "500000"},
                        {"serve.write_timeout", "20"}});
  const std::string body = R"({"prompt": ")" + std::string(1700000, '~') + R"("})";
  {
    Client slow(server.port());
    slow.send(request("POST", "/tokenize", body));
    ASSERT_TRUE(slow.read_until("max_model_len", 60));
    EXPECT_GT(held_bytes(server), 500000);
    EXPECT_EQ(server.post("/tokenize", R"({"prompt": "a"})").status, 503);
  }
  EXPECT_TRUE(soon([&] { return held_bytes(server) == 0; }));
  EXPECT_EQ(server.post("/tokenize", R"({"prompt": "a"})").status, 200);
}

TEST(Origins, ABrowserReachesItOnlyByKnownNames) {
  RunningServer server(
      {{"serve.hosts", R"(["models.example"])"}, {"serve.cors_origins", R"(["https://a.example"])"}});
  const auto with = [&](const std::string& method, const std::string& fields) {
    Client client(server.port());
    client.send(method + " /health HTTP/1.1\r\n" + fields + "\r\n");
    return client.read();
  };
  EXPECT_EQ(with("GET", "Host: evil.example\r\n").status, 403);
  EXPECT_EQ(with("GET", "Host: models.example:80\r\n").status, 200);
  for (const char* own : {"127.0.0.1:8000", "0.0.0.0:8000", "[::]", "[::1]:8000", "LOCALHOST"})
    EXPECT_EQ(with("GET", fmt::format("Host: {}\r\n", own)).status, 200) << own;
  EXPECT_EQ(with("GET", "Host: 0.0.0.0.evil.example\r\n").status, 403);
  const Response page = with("GET", "Host: localhost\r\nOrigin: https://a.example\r\n");
  EXPECT_EQ(page.fields.at("access-control-allow-origin"), "https://a.example");
  const Response other = with("GET", "Host: localhost\r\nOrigin: https://b.example\r\n");
  EXPECT_EQ(other.status, 403);
  EXPECT_EQ(with("GET", "Host: localhost\r\nOrigin: http://localhost\r\n").status, 200);
  EXPECT_FALSE(other.fields.contains("access-control-allow-origin"));
  EXPECT_EQ(with("OPTIONS", "Host: localhost\r\nOrigin: https://a.example\r\n").status, 204);
  EXPECT_EQ(with("OPTIONS", "Host: localhost\r\nOrigin: https://b.example\r\n").status, 403);
  const Response plain = with("OPTIONS", "Host: localhost\r\n");  // no page asks
  EXPECT_EQ(plain.status, 405);
  EXPECT_EQ(plain.fields.at("allow"), "GET");
}

TEST(GoneClient, CancelsItsRequest) {
  const Slowly slowly(20);
  RunningServer server;
  for (const bool stream : {false, true}) {
    for (const bool reset : {false, true}) {
      const int before = fake().cancelled;
      auto client = std::make_unique<Client>(server.port());
      client->send(request("POST", "/v1/completions",
                           fmt::format(R"({{"prompt": "Hi", "max_tokens": 190, "stream": {}}})", stream)));
      ASSERT_TRUE(soon([&] { return server.describe()["models"][0]["running"] == 1; }));
      if (stream) {
        EXPECT_TRUE(client->read_until("data: "));
      }
      if (reset) client->reset();
      client.reset();
      EXPECT_TRUE(soon([&] { return fake().cancelled == before + 1; })) << stream << reset;
      EXPECT_TRUE(soon([&] { return fake().open_completions == 0; }));
    }
  }
  EXPECT_EQ(server.get("/health").status, 200);
}

TEST(StartStop, LeavesNoThreadAndNoDescriptor) {
  const size_t threads_before = threads(), descriptors_before = descriptors();
  {
    RunningServer server;
    for (int i = 0; i < 10; ++i) {
      EXPECT_EQ(server.get("/health").status, 200);
      EXPECT_EQ(trl_server_start(server.get(), nullptr), TRL_E_BUSY);
      ASSERT_EQ(trl_server_stop(server.get(), 0, nullptr), TRL_OK);
      EXPECT_TRUE(comes_to_threads(threads_before));
      EXPECT_EQ(server.describe()["state"], "stopped");
      server.start();
    }
  }
  EXPECT_TRUE(comes_to_threads(threads_before));
  EXPECT_EQ(descriptors(), descriptors_before);
}

TEST(StartStop, NothingRunsBeforeStart) {
  const size_t before = threads();
  trl_server* server = nullptr;
  ASSERT_EQ(trl_server_create(nullptr, nullptr, &server, nullptr), TRL_OK);
  EXPECT_EQ(trl_server_start(server, nullptr), TRL_E_INVALID_ARGUMENT);  // no model
  EXPECT_EQ(trl_server_wait(server, 0, nullptr), TRL_OK);
  EXPECT_EQ(trl_server_stop(server, 0, nullptr), TRL_OK);
  ASSERT_EQ(trl_server_add_model(server, "a", nullptr, nullptr, nullptr, nullptr), TRL_OK);
  EXPECT_EQ(trl_server_add_model(server, "a", nullptr, nullptr, nullptr, nullptr), TRL_E_INVALID_ARGUMENT);
  EXPECT_EQ(trl_server_add_model(server, "", nullptr, nullptr, nullptr, nullptr), TRL_E_INVALID_ARGUMENT);
  EXPECT_EQ(threads(), before);
  trl_server_destroy(server);
  trl_server_cancel(nullptr);
  trl_server_destroy(nullptr);
  EXPECT_EQ(trl_server_create(nullptr, nullptr, nullptr, nullptr), TRL_E_INVALID_ARGUMENT);
}

TEST(StartStop, APortInUseIsAnError) {
  RunningServer first;
  const std::string port = std::to_string(first.port());
  trl_config* config = nullptr;
  trl_server* second = nullptr;
  trl_error* error = nullptr;
  ASSERT_EQ(trl_config_create(&config, nullptr), TRL_OK);
  trl_config_set(config, "serve.port", port.c_str(), nullptr);
  ASSERT_EQ(trl_server_create(nullptr, config, &second, nullptr), TRL_OK);
  trl_config_destroy(config);
  ASSERT_EQ(trl_server_add_model(second, "a", nullptr, nullptr, nullptr, nullptr), TRL_OK);
  EXPECT_EQ(trl_server_start(second, &error), TRL_E_IO);
  EXPECT_NE(std::string(trl_error_message(error)).find("127.0.0.1:" + port), std::string::npos);
  trl_error_destroy(error);
  trl_server_destroy(second);
}

TEST(Drain, RequestsEndAndNewOnesAreRefused) {
  const Slowly slowly(20);
  RunningServer server;
  Client running(server.port()), other(server.port());
  EXPECT_EQ(other.get("/health").status, 200);
  running.send(request("POST", "/v1/completions", R"({"prompt": "Hi", "max_tokens": 20})"));
  ASSERT_TRUE(soon([&] { return server.describe()["models"][0]["running"] == 1; }));
  trl_server_cancel(server.get());
  EXPECT_TRUE(soon([&] { return other.get("/health").status == 503; }));
  EXPECT_EQ(other.post("/v1/completions", R"({"prompt": "a"})").status, 503);
  std::thread waits([&] { EXPECT_EQ(trl_server_wait(server.get(), -1, nullptr), TRL_OK); });
  const Response response = running.read();
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(Json::parse(response.body)["usage"]["completion_tokens"], 20);
  waits.join();
  EXPECT_EQ(server.describe()["state"], "stopped");
}

TEST(Drain, WhatDoesNotEndInTimeIsCancelled) {
  const Slowly slowly(50);
  RunningServer server;
  Client running(server.port());
  running.send(request("POST", "/v1/completions", R"({"prompt": "Hi", "max_tokens": 190})"));
  ASSERT_TRUE(soon([&] { return server.describe()["models"][0]["running"] == 1; }));
  ASSERT_EQ(trl_server_stop(server.get(), 0.1, nullptr), TRL_OK);
  EXPECT_EQ(running.read().status, 503);
  EXPECT_EQ(fake().open_completions, 0);
}

TEST(Wait, EndsWithTheRuntimesCancel) {
  RunningServer server;
  trl_error* error = nullptr;
  EXPECT_EQ(trl_server_wait(server.get(), 0.05, &error), TRL_LATER);
  fake().runtime_cancelled = true;
  EXPECT_EQ(trl_server_wait(server.get(), -1, &error), TRL_E_CANCELLED);
  fake().runtime_cancelled = false;
  trl_error_destroy(error);
  EXPECT_EQ(server.get("/health").status, 200);
}

// Creates a server with options, and adds models with options of their own. Returns the first error's
// message.
std::string refusal_of(Options of_server, std::initializer_list<Options> of_models) {
  const auto config_of = [](Options options) {
    trl_config* config = nullptr;
    EXPECT_EQ(trl_config_create(&config, nullptr), TRL_OK);
    for (const auto& [key, value] : options) EXPECT_EQ(trl_config_set(config, key, value, nullptr), TRL_OK);
    return config;
  };
  trl_config* config = config_of(of_server);
  trl_server* server = nullptr;
  trl_error* error = nullptr;
  trl_server_create(nullptr, config, &server, &error);
  trl_config_destroy(config);
  int number = 0;
  for (const Options& options : of_models) {
    if (error != nullptr) break;
    config = config_of(options);
    trl_server_add_model(server, std::to_string(number++).c_str(), nullptr, nullptr, config, &error);
    trl_config_destroy(config);
  }
  const std::string message = error == nullptr ? "" : trl_error_message(error);
  trl_error_destroy(error);
  trl_server_destroy(server);
  return message;
}

TEST(OwnOptions, AreThoseOfOneModel) {
  for (const char* key : {"serve.port", "serve.host", "serve.api_key", "serve.max_body_bytes", "serve.max_n",
                          "serve.idle_timeout", "serve.hosts"})
    EXPECT_NE(refusal_of({}, {{{key, "7"}}}).find(std::string(key) + ": it is of the whole server"),
              std::string::npos)
        << key;
  EXPECT_EQ(refusal_of({{"serve.port", "7"}}, {{{"serve.port", "7"}}}), "");
  EXPECT_EQ(refusal_of({}, {{{"serve.max_num_seqs", "2"}, {"serve.max_queue", "3"}}}), "");
  EXPECT_EQ(refusal_of({{"serve.model_names", R"(["a"])"}}, {{}, {}}), "");
  EXPECT_NE(refusal_of({}, {{{"serve.model_names", R"(["a"])"}}, {{"serve.model_names", R"(["a"])"}}})
                .find("'a' is another model's"),
            std::string::npos);
}

TEST(OwnOptions, ThatTheModelOrTheMachineDoesNotHaveAreRefused) {
  EXPECT_EQ(refusal_of({}, {{{"serve.max_model_len", "200"}}}), "");
  const std::string longer = refusal_of({}, {{{"serve.max_model_len", "201"}}});
  EXPECT_NE(longer.find("serve.max_model_len: 201 is more than the 200 positions"), std::string::npos)
      << longer;
  const std::string nowhere =
      refusal_of({{"serve.enable_lora", "true"}, {"serve.adapter_dir", "/nowhere"}}, {{}});
  EXPECT_NE(nowhere.find("serve.adapter_dir: /nowhere is not a directory"), std::string::npos) << nowhere;
}

TEST(OwnOptions, ThatRequestsWouldBeRefusedForAreRefusedAtOnce) {
  EXPECT_NE(refusal_of({}, {{{"generate.regex", "(?=a)"}}}).find("generate.regex: character 1"),
            std::string::npos);
  EXPECT_NE(refusal_of({}, {{{"generate.generation_kwargs", "{}"}}}).find("generate.generation_kwargs"),
            std::string::npos);
  EXPECT_EQ(fake().open_completions, 0);
}

TEST(Keys, ThatNobodyCouldSendAreRefused) {
  for (const char* keys : {R"([""])", R"(["good", ""])", R"([" a"])", R"(["a "])", R"(["a\nb"])"})
    EXPECT_NE(refusal_of({{"serve.api_key", keys}}, {}).find("serve.api_key: a key is empty"),
              std::string::npos)
        << keys;
  EXPECT_EQ(refusal_of({{"serve.api_key", R"(["a b"])"}}, {}), "");
}

TEST(Fairness, ManyPromptsOfOneClientDoNotKeepOthersOut) {
  const Slowly slowly(5);
  RunningServer server({{"serve.max_num_seqs", "2"}, {"serve.max_queue", "100"}});
  Client greedy(server.port());
  greedy.send(request("POST", "/v1/completions",
                      R"({"prompt": [[1],[1],[1],[1],[1],[1],[1],[1],[1],[1],[1],[1]], "max_tokens": 20})"));
  ASSERT_TRUE(soon([&] { return server.describe()["models"][0]["running"] == 2; }));
  EXPECT_EQ(server.post("/v1/completions", R"({"prompt": "Hi", "max_tokens": 2})").status, 200);
  EXPECT_EQ(greedy.read(0).status, 0) << "the request that came first was answered first";
  EXPECT_EQ(greedy.read().status, 200);
}

TEST(Fairness, OneRequestComputesNoMoreAtOnceThanTheServer) {
  RunningServer whole, few({{"serve.max_num_seqs", "3"}});
  const std::string body =
      R"({"prompt": [[1, 2], [3]], "n": 8, "temperature": 1, "max_tokens": 6, "trl_seed": 1})";
  const Json want = Json::parse(whole.post("/v1/completions", body).body);
  EXPECT_EQ(want["choices"].size(), 16u);
  fake().most_open = 0;
  const Json got = Json::parse(few.post("/v1/completions", body).body);
  EXPECT_EQ(fake().most_open, 3);
  EXPECT_EQ(got["choices"], want["choices"]);
  EXPECT_EQ(got["usage"], want["usage"]);
}

}  // namespace
}  // namespace trl::serve::test
