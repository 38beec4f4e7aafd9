// Every allocation of the server's threads fails once, one in each request: the request is answered or its
// connection ends, and the server goes on.
#include <thread>

#include "fake_library.h"
#include "running_server.h"
#include "scarce_memory.h"

namespace trl::serve::test {
namespace {

// Waits until no completion is open.
bool is_idle() {
  for (int i = 0; i < 500 && fake().open_completions != 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return fake().open_completions == 0;
}

// Sends the request again and again, each time with the next allocation failing, until none is left to fail.
void expect_answers(RunningServer& server, const std::string& bytes) {
  SCOPED_TRACE(bytes.substr(0, bytes.find('\r')));
  constexpr int kMost = 3000;
  int number = 1;
  for (bool failed = true; failed && number < kMost; ++number) {
    SCOPED_TRACE(number);
    Response response;
    {
      Client client(server.port());
      fail_allocation(number);
      client.send(bytes);
      response = client.read(5);
      failed = has_failed();
      fail_allocation(0);
      if (response.status == 0) {
        ASSERT_TRUE(failed);
        ASSERT_TRUE(client.closed());
      }
    }
    if (failed && response.status >= 500) {
      ASSERT_NE(response.body.find("error"), std::string::npos) << response.body;
    }
    ASSERT_TRUE(is_idle());
    ASSERT_EQ(server.get("/health").status, 200);
    if (number % 8 != 0) continue;
    const auto ask = [&] { return server.post("/v1/completions", R"({"prompt": "Hi", "max_tokens": 2})"); };
    Response whole = ask();
    if (failed && whole.status == 503) whole = ask();  // the turn without memory had not ended when it came
    ASSERT_EQ(whole.status, 200) << whole.body;
    ASSERT_EQ(Json::parse(whole.body)["choices"][0]["text"], "ab");
  }
  EXPECT_LT(number, kMost);
}

TEST(Memory, ThatIsMissingEndsOneRequestAndNotTheServer) {
  RunningServer server;
  const auto post = [](const std::string& path, const std::string& body) {
    return request("POST", path, body);
  };
  expect_answers(server, request("GET", "/nowhere"));
  expect_answers(server,
                 post("/v1/completions", R"({"prompt": ["Hi", "a"], "max_tokens": 2, "logprobs": 1})"));
  expect_answers(server, post("/v1/completions", R"({"prompt": "Hi", "max_tokens": 2, "stream": true})"));
  expect_answers(server, post("/v1/completions", R"({"prompt": [300]})"));
  expect_answers(server, post("/v1/chat/completions", R"({"messages": [{"role": "user", "content": "a"}],
                              "max_tokens": 1, "response_format": {"type": "json_object"}})"));
  expect_answers(server, post("/reset_prefix_cache", ""));
}

}  // namespace
}  // namespace trl::serve::test
