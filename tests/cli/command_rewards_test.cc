// Programs that give rewards, and a trainer that asks them: its functions of the C API are here.
#include "cli/command_rewards.h"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>

#include "cli/progress.h"

namespace {

trl_rollout_fn asked = nullptr;  // what the command adds to the trainer
void* asked_data = nullptr;
std::string entries;  // reward_funcs
bool by_group = false;

}  // namespace

// One completion, of one step.
struct trl_rollout {
  explicit trl_rollout(int step) : trl_rollout(step, step + 1) {}
  trl_rollout(int step, int generation) {
    row = R"({"mode": "train", "step": )" + std::to_string(step) + R"(, "generation": )" +
          std::to_string(generation) +
          R"(, "row": 0, "prompt": "a", "completion": "b", "completion_ids": [1], "columns": {}})";
  }
  void wait() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return finished; });
  }

  std::string row, failure;
  double reward = 0;
  std::chrono::milliseconds after{0};  // that its finish takes to return
  std::mutex mutex;
  std::condition_variable changed;
  bool finished = false;
};

extern "C" {
const char* trl_error_message(const trl_error*) noexcept { return "refused"; }
void trl_error_destroy(trl_error*) noexcept {}
trl_status trl_config_create(trl_config**, trl_error**) noexcept { return TRL_OK; }
void trl_config_destroy(trl_config*) noexcept {}
void trl_trainer_destroy(trl_trainer*) noexcept {}

trl_status trl_config_get(const trl_config*, const char* key, const char** out_value, trl_error**) noexcept {
  const std::string_view name = key;
  *out_value = name == "reward_funcs"                  ? entries.c_str()
               : name == "reward_by_group" && by_group ? "true"
                                                       : "null";
  return TRL_OK;
}

trl_status trl_trainer_add_reward(trl_trainer*, const char*, trl_rollout_fn function, void* user_data,
                                  trl_destroy_fn, trl_error**) noexcept {
  asked = function;
  asked_data = user_data;
  return TRL_OK;
}

size_t trl_rollout_count(const trl_rollout*) noexcept { return 1; }
trl_status trl_rollout_log(trl_rollout*, const char*, double, trl_error**) noexcept { return TRL_OK; }

trl_status trl_rollout_get(const trl_rollout* rollout, size_t, const char** out_json, trl_error**) noexcept {
  *out_json = rollout->row.c_str();
  return TRL_OK;
}

trl_status trl_rollout_set_reward(trl_rollout* rollout, size_t, double reward, trl_error**) noexcept {
  rollout->reward = reward;
  return TRL_OK;
}

trl_status trl_rollout_finish(trl_rollout* rollout, const char* message, trl_error**) noexcept {
  {
    const std::lock_guard lock(rollout->mutex);
    if (message != nullptr) rollout->failure = message;
    rollout->finished = true;
  }
  rollout->changed.notify_all();
  std::this_thread::sleep_for(rollout->after);
  return TRL_OK;
}
}

namespace trl::cli {

void clear_line() {}

namespace {

// A program that answers each request with `answer`, a text for a shell in which n counts them.
struct Asked {
  explicit Asked(const std::string& answer, bool groups = false) {
    by_group = groups;
    std::signal(SIGPIPE, SIG_IGN);  // as the command does
    const std::string line = "command:n=0; while read -r line; do n=$((n + 1)); " + answer + "; done";
    entries = nlohmann::json::array({line}).dump();
    rewards.emplace(config, trainer);
  }
  static void ask(trl_rollout& rollout) { EXPECT_EQ(asked(asked_data, &rollout), TRL_LATER); }

  const Config config;
  const Trainer trainer;
  std::optional<CommandRewards> rewards;
};

// The next generation begins while the thread that asks has not returned from the last one.
TEST(CommandRewards, AnIdleProgramIsAskedAgain) {
  trl_rollout first(0), second(1), third(2);
  Asked program("echo \"[$n]\"");
  first.after = second.after = std::chrono::milliseconds(200);
  for (trl_rollout* const one : {&first, &second, &third}) {
    Asked::ask(*one);
    one->wait();
    EXPECT_EQ(one->failure, "");
  }
  EXPECT_EQ(first.reward, 1);
  EXPECT_EQ(third.reward, 3);  // of the same program
}

// As in TRL, where True is 1.
TEST(CommandRewards, MayBeTruthValues) {
  trl_rollout first(0), second(1);
  Asked program("if [ $n = 1 ]; then echo '[true]'; else echo '{\"rewards\": [false]}'; fi");
  for (trl_rollout* const one : {&first, &second}) {
    Asked::ask(*one);
    one->wait();
    EXPECT_EQ(one->failure, "");
  }
  EXPECT_EQ(first.reward, 1);
  EXPECT_EQ(second.reward, 0);
}

// Tells how an answer fails.
std::string failure_of(const std::string& answer) {
  trl_rollout rollout(0);
  Asked program("echo '" + answer + "'");
  Asked::ask(rollout);
  rollout.wait();
  return rollout.failure;
}

TEST(CommandRewards, AMemberThatNothingReadsIsRefused) {
  EXPECT_EQ(failure_of(R"({"rewards": [1], "metrics": {"my/x": 3}})"), "");
  const std::string failure = failure_of(R"({"rewards": [1], "my/x": 3})");
  for (const char* part :
       {"line 1 of its output", "\"my/x\"", "rewards, a list", "metrics, an object of numbers"})
    EXPECT_NE(failure.find(part), std::string::npos) << failure;
}

TEST(CommandRewards, ANumberBeyondFloat32IsRefusedInTheProgramsWords) {
  const std::string failure = failure_of("[1e300]");
  EXPECT_NE(failure.find("reward 0: 1e+300 is beyond float32"), std::string::npos) << failure;
  EXPECT_NE(failure.find("null for none"), std::string::npos) << failure;
}

TEST(CommandRewards, AnAnswerThatIsNestedTooDeepIsRefused) {
  trl_rollout rollout(0);
  Asked program("head -c 300000 /dev/zero | tr '\\0' '['; head -c 300000 /dev/zero | tr '\\0' ']'; echo");
  Asked::ask(rollout);
  rollout.wait();
  EXPECT_NE(rollout.failure.find("nested deeper than 128"), std::string::npos) << rollout.failure;
}

TEST(CommandRewards, ALineWithoutAnEndIsRefused) {
  trl_rollout rollout(0);
  Asked program("tr '\\0' 1 </dev/zero");
  Asked::ask(rollout);
  rollout.wait();
  EXPECT_NE(rollout.failure.find("bytes without the end of a line"), std::string::npos) << rollout.failure;
}

TEST(CommandRewards, AMessageHasTheBeginningOfALongValue) {
  trl_rollout rollout(0);
  Asked program("printf '[\"'; head -c 100000 /dev/zero | tr '\\0' x; echo '\"]'");
  Asked::ask(rollout);
  rollout.wait();
  EXPECT_NE(rollout.failure.find("reward 0: \"xxx"), std::string::npos);
  EXPECT_LT(rollout.failure.size(), 500u);
}

// Whether it comes with the first one or later.
TEST(CommandRewards, ASecondAnswerIsNotThatOfTheNextQuestion) {
  trl_rollout at_once(0), first(0), second(1), third(2);
  {
    Asked program("printf '[%d]\\n[8]\\n' $n");
    Asked::ask(at_once);
    at_once.wait();
    EXPECT_NE(at_once.failure.find("a second one for a request: [8]"), std::string::npos) << at_once.failure;
  }
  Asked program("echo \"[$n]\"; sleep 0.1; echo '[9]'");
  Asked::ask(first);
  first.wait();
  EXPECT_EQ(first.failure, "");
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  Asked::ask(second);
  second.wait();
  EXPECT_NE(second.failure.find("a second one for a request: [9]"), std::string::npos) << second.failure;
  Asked::ask(third);
  third.wait();
  EXPECT_EQ(third.failure, "");
  EXPECT_EQ(third.reward, 1);  // of a program that was started anew
}

TEST(CommandRewards, AProgramThatIsLateIsStartedAnew) {
  trl_rollout first(0), second(1);
  Asked program("case $line in *step?:0*) sleep 60; esac; echo \"[$n]\"");
  Asked::ask(first);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  Asked::ask(second);
  first.wait();
  second.wait();
  EXPECT_NE(first.failure, "");
  EXPECT_EQ(second.failure, "");
  EXPECT_EQ(second.reward, 1);
}

// A step may have several generations.
TEST(CommandRewards, AProgramThatIsLateIsStartedAnewInTheSameStep) {
  trl_rollout first(0), second(0);
  first.row.replace(first.row.find("\"a\""), 3, "\"late\"");
  Asked program("case $line in *late*) sleep 60; esac; echo \"[$n]\"");
  Asked::ask(first);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  Asked::ask(second);
  first.wait();
  second.wait();
  EXPECT_NE(first.failure, "");
  EXPECT_EQ(second.failure, "");
  EXPECT_EQ(second.reward, 1);
}

// So it is if groups wait for each other, but only in another generation.
TEST(CommandRewards, AProgramThatIsLateWithAGroupIsStartedAnewInTheNextGeneration) {
  trl_rollout first(0, 1), second(0, 2);
  first.row.replace(first.row.find("\"a\""), 3, "\"late\"");
  Asked program("case $line in *late*) sleep 60; esac; echo \"[$n]\"", true);
  Asked::ask(first);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  Asked::ask(second);
  first.wait();
  second.wait();
  EXPECT_NE(first.failure, "");
  EXPECT_EQ(second.failure, "");
  EXPECT_EQ(second.reward, 1);
}

// Groups wait for each other: a question of the same generation does not end the one before.
TEST(CommandRewards, ALateAnswerOfAGroupIsThatOfItsOwnQuestion) {
  trl_rollout first(0), second(0), third(0);
  first.row.replace(first.row.find("\"a\""), 3, "\"late\"");
  Asked program("case $line in *late*) sleep 0.3; echo \"[7]\";; *) echo \"[$n]\";; esac", true);
  for (trl_rollout* const one : {&first, &second, &third}) Asked::ask(*one);
  for (trl_rollout* const one : {&first, &second, &third}) {
    one->wait();
    EXPECT_EQ(one->failure, "");
  }
  EXPECT_EQ(first.reward, 7);
  EXPECT_EQ(second.reward, 2);
  EXPECT_EQ(third.reward, 3);
}

}  // namespace
}  // namespace trl::cli
