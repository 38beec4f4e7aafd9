// A model that sleeps: what each call leads to, and what becomes of requests.
#include <future>
#include <thread>

#include "fake_library.h"
#include "running_server.h"

namespace trl::serve::test {
namespace {

constexpr const char* kRequest = R"({"prompt": "Hi", "max_tokens": 3})";
constexpr const char* kLong = R"({"prompt": "Hi", "max_tokens": 40})";

bool sleeps(RunningServer& server) {
  return Json::parse(server.get("/is_sleeping").body)["is_sleeping"].get<bool>();
}

// Waits until a request has begun.
void wait_for_steps() {
  for (int before = fake().steps, i = 0; fake().steps < before + 3 && i < 1000; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

// All pairs of calls: the model answers when, and only when, all that was given back was asked for.
TEST(SleepStates, AllPairs) {
  struct Call {
    const char* path;
    bool weights, keys, in;  // what it changes, and whether that is in memory then
  };
  constexpr Call kCalls[] = {{"/sleep", false, true, false},
                             {"/sleep?level=1&mode=wait", false, true, false},
                             {"/sleep?level=1&mode=keep", false, true, false},
                             {"/sleep?level=2", true, true, false},
                             {"/sleep?level=2&mode=wait", true, true, false},
                             {"/wake_up", true, true, true},
                             {"/wake_up?tags=weights", true, false, true},
                             {"/wake_up?tags=kv_cache", false, true, true},
                             {"/wake_up?tags=weights&tags=kv_cache", true, true, true},
                             {"/wake_up?tags=weights,kv_cache", true, true, true}};
  RunningServer server;
  for (const Call& first : kCalls) {
    for (const Call& second : kCalls) {
      bool weights = true, keys = true;
      for (const Call* call : {&first, &second}) {
        EXPECT_EQ(server.post(call->path, "").status, 200) << call->path;
        if (call->weights) weights = call->in;
        if (call->keys) keys = call->in;
        const bool awake = weights && keys;
        EXPECT_EQ(sleeps(server), !awake) << first.path << " " << second.path;
        EXPECT_EQ(server.describe()["models"][0]["state"], awake ? "awake" : "asleep");
        const Response answer = server.post("/v1/completions", kRequest);
        EXPECT_EQ(answer.status, awake ? 200 : 503) << first.path << " " << second.path;
        EXPECT_EQ(answer.body.find("/wake_up") != std::string::npos, !awake);
      }
      ASSERT_EQ(server.post("/wake_up", "").status, 200);
      EXPECT_EQ(server.ask("/v1/completions", Json::parse(kRequest))["choices"][0]["text"], "abc");
    }
  }
}

TEST(Sleep, GivesMemoryBackAndAnswersTheRest) {
  RunningServer server;
  const int before = fake().released;
  EXPECT_EQ(server.post("/sleep?level=1", "").status, 200);
  EXPECT_EQ(fake().released, before + 1);
  EXPECT_EQ(server.get("/health").status, 200);
  EXPECT_EQ(server.get("/v1/models").status, 200);
  EXPECT_EQ(server.post("/tokenize", R"({"prompt": "Hi"})").status, 200);
  EXPECT_EQ(server.post("/reset_prefix_cache", "").status, 200);
  EXPECT_EQ(server.post("/generate/", R"({"prompts": ["Hi"]})").status, 503);
}

TEST(Sleep, WrongValuesAreRefused) {
  RunningServer server;
  for (const char* path : {"/sleep?level=3", "/sleep?level=0", "/sleep?level=x", "/sleep?mode=later",
                           "/sleep?level=2&mode=keep", "/wake_up?tags=all", "/wake_up?tags=weights,"})
    EXPECT_EQ(server.post(path, "").status, 400) << path;
  EXPECT_EQ(server.get("/sleep").status, 405);
  EXPECT_FALSE(sleeps(server));
  RunningServer off({{"serve.enable_sleep_mode", "false"}});
  EXPECT_EQ(off.post("/sleep", "").status, 403);
  EXPECT_EQ(off.post("/wake_up", "").status, 403);
  EXPECT_FALSE(sleeps(off));
}

class SleepModes : public testing::Test {
 protected:
  void SetUp() override { fake().step_milliseconds = 5; }
  void TearDown() override { fake().step_milliseconds = 0; }
  RunningServer server_ = RunningServer(Options{{"serve.max_num_seqs", "1"}});
  std::future<Response> ask() {
    return std::async(std::launch::async, [this] { return server_.post("/v1/completions", kLong); });
  }
};

TEST_F(SleepModes, AbortEndsWhatRunsAndRefusesWhatWaits) {
  std::future<Response> first = ask();
  wait_for_steps();
  std::future<Response> second = ask();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(server_.post("/sleep", "").status, 200);
  const Response ran = first.get();
  ASSERT_EQ(ran.status, 200) << ran.body;
  const Json choice = Json::parse(ran.body)["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "abort");
  EXPECT_TRUE(
      std::string("abcdefghijklmnopqrstuvwxyzabcdefghijklmn").starts_with(choice["text"].get<std::string>()));
  EXPECT_EQ(second.get().status, 503);
  EXPECT_EQ(fake().open_completions, 0);
}

TEST_F(SleepModes, WaitLetsThemEnd) {
  std::future<Response> first = ask();
  wait_for_steps();
  std::future<Response> sleep =
      std::async(std::launch::async, [this] { return server_.post("/sleep?level=2&mode=wait", ""); });
  for (int i = 0; i < 200 && !sleeps(server_); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(server_.post("/v1/completions", kRequest).status, 503);
  EXPECT_EQ(Json::parse(first.get().body)["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(sleep.get().status, 200);
}

TEST_F(SleepModes, AWakeInBetweenIsTold) {
  std::future<Response> first = ask();
  wait_for_steps();
  std::future<Response> sleep =
      std::async(std::launch::async, [this] { return server_.post("/sleep?mode=wait", ""); });
  for (int i = 0; i < 200 && !sleeps(server_); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(server_.post("/sleep?mode=keep", "").status, 409);
  EXPECT_EQ(server_.post("/wake_up", "").status, 200);
  EXPECT_EQ(sleep.get().status, 409);
  EXPECT_EQ(Json::parse(first.get().body)["choices"][0]["finish_reason"], "length");
}

TEST_F(SleepModes, KeepHoldsThem) {
  std::future<Response> first = ask();
  wait_for_steps();
  ASSERT_EQ(server_.post("/sleep?mode=keep", "").status, 200);
  const int steps = fake().steps;
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(fake().steps, steps);
  EXPECT_EQ(server_.post("/v1/completions", kRequest).status, 503);
  EXPECT_EQ(server_.post("/wake_up", "").status, 200);
  EXPECT_EQ(Json::parse(first.get().body)["choices"][0]["text"], "abcdefghijklmnopqrstuvwxyzabcdefghijklmn");
  // A client that goes while its request is held.
  {
    Client client(server_.port());
    client.send(request("POST", "/v1/completions", kLong));
    wait_for_steps();
    ASSERT_EQ(server_.post("/sleep?mode=keep", "").status, 200);
  }
  for (int i = 0; i < 200 && fake().open_completions > 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(fake().open_completions, 0);
}

TEST(Sleep, OfTheHost) {
  RunningServer server;
  EXPECT_EQ(trl_server_sleep(server.get(), nullptr, 3, nullptr, nullptr), TRL_E_INVALID_ARGUMENT);
  EXPECT_EQ(trl_server_sleep(server.get(), "other", 1, nullptr, nullptr), TRL_E_NOT_FOUND);
  EXPECT_EQ(trl_server_sleep(server.get(), "tiny", 2, "wait", nullptr), TRL_OK);
  EXPECT_TRUE(sleeps(server));
  EXPECT_EQ(trl_server_wake_up(server.get(), nullptr, "kv_cache", nullptr), TRL_OK);
  EXPECT_TRUE(sleeps(server));
  EXPECT_EQ(trl_server_wake_up(server.get(), nullptr, "everything", nullptr), TRL_E_INVALID_ARGUMENT);
  EXPECT_EQ(trl_server_wake_up(server.get(), nullptr, nullptr, nullptr), TRL_OK);
  EXPECT_FALSE(sleeps(server));
  // Of a server that does not run: it wakes up asleep.
  EXPECT_EQ(trl_server_stop(server.get(), 0, nullptr), TRL_OK);
  EXPECT_EQ(trl_server_sleep(server.get(), nullptr, 1, nullptr, nullptr), TRL_OK);
  server.start();
  EXPECT_EQ(server.post("/v1/completions", kRequest).status, 503);
  EXPECT_EQ(server.post("/wake_up", "").status, 200);
  EXPECT_EQ(server.post("/v1/completions", kRequest).status, 200);
}

}  // namespace
}  // namespace trl::serve::test
