// Weights over a group of processes, with a mock of it: what is sent in which order, and that every failure
// on one side ends the wait of the other.
#include "run/server/group_out.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "base/error.h"
#include "run/server/fake_model.h"
#include "run/server/scripted_server.h"

namespace trl::test {
namespace {

using run::Communicator;
using run::GroupOut;
using Clock = std::chrono::steady_clock;

// Waits where it is told to, until it is closed or the time is over.
class MockCommunicator final : public Communicator {
 public:
  bool join_hangs = false;
  int broadcast_fails_at = -1, broadcast_hangs_at = -1;
  std::atomic<int> joined{0}, closed{0};
  Group group = {};
  std::vector<std::string> sent = {};

  void join(const Group& of, double seconds) override {
    closed_ = false;
    group = of;
    if (join_hangs) wait(seconds);
    ++joined;
  }
  void broadcast(std::string_view bytes, double seconds) override {
    const int number = static_cast<int>(sent.size());
    if (number == broadcast_hangs_at) wait(seconds);
    if (number == broadcast_fails_at) throw Error(Status::io, "the broadcast failed");
    sent.emplace_back(bytes);
  }
  void close() noexcept override {
    closed_ = true;
    ++closed;
  }

 private:
  void wait(double seconds) const {
    const auto end = Clock::now() + std::chrono::duration<double>(seconds);
    while (!closed_ && Clock::now() < end) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    throw Error(Status::io, closed_ ? "the group was closed" : "nobody joined in time");
  }
  std::atomic<bool> closed_{false};
};

class GroupOutTest : public testing::Test {
 protected:
  GroupOutTest() { model_.tensors = {{"a", {{2}, {1, 2}}}, {"b", {{1, 3}, {3, 4, 5}}}}; }
  // Sends twice; returns the message of the error, or an empty text.
  std::string send(ScriptedServer& server, double seconds, int64_t step = 0) {
    KeptLog log;
    run::Exchange exchange = server.exchange(log);
    GroupOut out(model_, exchange, group_, {.address = "10.0.0.1", .port = 51216, .size = 0}, "served",
                 seconds);
    try {
      EXPECT_EQ(out.send(step), "served");
      EXPECT_EQ(out.send(step), "served");  // it has these
      return {};
    } catch (const Error& error) {
      return error.message();
    }
  }
  static ScriptedServer::Answered answer(const ScriptedServer::Asked& asked) {
    return {200, asked.path == "/get_world_size" ? R"({"world_size": 2})" : R"({"message": "ok"})"};
  }

  FakeModel model_;
  MockCommunicator group_;
};

TEST_F(GroupOutTest, SendsAllTensorsInTheOrderOfTheirNames) {
  ScriptedServer server(answer);
  EXPECT_EQ(send(server, 10), "");
  std::vector<std::string> paths;
  for (const auto& asked : server.asked) paths.push_back(asked.path);
  EXPECT_EQ(paths, (std::vector<std::string>{"/get_world_size", "/init_weight_transfer_engine",
                                             "/start_weight_update", "/update_weights",
                                             "/finish_weight_update", "/reset_prefix_cache"}));
  EXPECT_EQ(group_.group.size, 3);
  EXPECT_EQ(
      server.asked[1].body,
      R"({"init_info":{"master_address":"10.0.0.1","master_port":51216,"rank_offset":1,"world_size":3}})");
  EXPECT_EQ(
      server.asked[3].body,
      R"({"update_info":{"names":["a","b"],"dtype_names":["bfloat16","bfloat16"],"shapes":[[2],[1,3]]}})");
  ASSERT_EQ(group_.sent.size(), 2u);
  EXPECT_EQ(group_.sent[0], std::string("\x80\x3f\x00\x40", 4));
  EXPECT_EQ(group_.sent[1].size(), 6u);
  EXPECT_EQ(group_.closed, 1);  // by the end of the run
}

TEST_F(GroupOutTest, ARefusalEndsTheJoinAtOnce) {
  group_.join_hangs = true;
  ScriptedServer server([](const ScriptedServer::Asked& asked) -> ScriptedServer::Answered {
    if (asked.path == "/init_weight_transfer_engine") return {400, "no engine"};
    return answer(asked);
  });
  const auto begin = Clock::now();
  const std::string message = send(server, 60);
  EXPECT_NE(message.find("Request failed: 400, no engine"), std::string::npos) << message;
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(30));
  EXPECT_GE(group_.closed, 1);
}

TEST_F(GroupOutTest, AServerThatJoinsNotIsAnErrorInTime) {
  group_.join_hangs = true;
  ScriptedServer server(answer);
  EXPECT_EQ(send(server, 0.05), "nobody joined in time");
  EXPECT_GE(group_.closed, 1);
}

TEST_F(GroupOutTest, AFailureAmongTheTensorsClosesTheGroup) {
  for (const bool hangs : {false, true}) {
    (hangs ? group_.broadcast_hangs_at : group_.broadcast_fails_at) = 1;
    ScriptedServer server(answer);
    const std::string message = send(server, 0.05);
    EXPECT_EQ(message, hangs ? "nobody joined in time" : "the broadcast failed");
    for (const auto& asked : server.asked) EXPECT_NE(asked.path, "/finish_weight_update");
    EXPECT_GE(group_.closed, 1);
    group_.sent.clear();
    group_.broadcast_fails_at = -1;
  }
}

TEST_F(GroupOutTest, ARefusedUpdateEndsTheBroadcast) {
  group_.broadcast_hangs_at = 0;
  ScriptedServer server([](const ScriptedServer::Asked& asked) -> ScriptedServer::Answered {
    if (asked.path == "/update_weights") return {500, "unknown tensor"};
    return answer(asked);
  });
  const std::string message = send(server, 60);
  EXPECT_NE(message.find("Request failed: 500, unknown tensor"), std::string::npos) << message;
}

}  // namespace
}  // namespace trl::test
