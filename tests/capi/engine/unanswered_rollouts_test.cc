// Hosts that leave completions without a reward, or prompts without a completion, or answer too late.
#include <algorithm>
#include <cmath>
#include <thread>
#include <utility>

#include "engine/rewarded.h"

namespace unanswered_rollouts_test {
namespace {

using host::call;
using host::Error;
using host::Function;
using host::grpo;
using host::Json;

#define NEED_MODEL() NEED_GOLDEN("models/qwen2/model.safetensors")

struct Warnings {
  std::vector<std::string> lines;
  static void write(void* warnings, int32_t level, const char*, const char* text, size_t size) {
    if (level == 2) static_cast<Warnings*>(warnings)->lines.emplace_back(text, size);
  }
};

TEST(UnansweredRewards, OfAWholeGenerationAreSaidAndTeachNothing) {
  NEED_MODEL();
  const host::Scratch scratch;
  Warnings warnings;
  const auto runtime = host::runtime();
  ASSERT_EQ(trl_runtime_set_log(runtime.get(), Warnings::write, &warnings, nullptr, nullptr), TRL_OK);
  const host::Dataset rows = host::rows(host::kPrompts);
  Function none = [](trl_rollout* rollout) {
    for (size_t i = 0; i < trl_rollout_count(rollout); ++i)
      EXPECT_EQ(trl_rollout_set_reward(rollout, i, std::nan(""), nullptr), TRL_OK);
    return int32_t{TRL_OK};
  };
  const host::Trainer trainer =
      host::trainer(grpo(scratch / "out", {{"max_steps", "1"}}), rows.get(), nullptr, runtime.get());
  Error error;
  ASSERT_EQ(trl_trainer_add_reward(trainer.get(), "points", call, &none, nullptr, error), TRL_OK);
  ASSERT_EQ(trl_trainer_train(trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
  constexpr const char* kWhy = "no completion of this generation has a reward: points gave none";
  EXPECT_EQ(std::ranges::count(warnings.lines, kWhy), 1);
  const Json record = host::state(trainer.get())["log_history"][0];
  EXPECT_EQ(record["loss"], 0.0);
  EXPECT_EQ(record["grad_norm"], 0.0);
}

TEST(UnansweredPrompts, EndTheStepWhichCanBeTriedAgain) {
  NEED_MODEL();
  const host::Scratch scratch;
  host::Rewarded run(grpo(scratch / "out", {{"max_steps", "1"}}), host::reward_all);
  size_t given = 3;
  Function write = [&](trl_rollout* rollout) {
    const int32_t ids[] = {10, 11};
    for (size_t i = 0; i < given; ++i)
      EXPECT_EQ(trl_rollout_set_completion(rollout, i, ids, 2, nullptr, nullptr, nullptr, nullptr), TRL_OK);
    return int32_t{TRL_OK};
  };
  ASSERT_EQ(trl_trainer_set_rollout(run.trainer.get(), call, &write, nullptr, run.error), TRL_OK);
  EXPECT_EQ(run.train(), TRL_E_CALLBACK);
  EXPECT_TRUE(run.error.names("the host's rollout set no completion for row 3 of 4: set each of them"))
      << run.error.message();
  given = 4;
  EXPECT_EQ(run.train(), TRL_OK) << run.error.message();
}

// Whether its function waits for that or another thread finishes it.
TEST(LateAnswers, EndTheStep) {
  NEED_MODEL();
  const host::Scratch scratch;
  for (const bool waits : {true, false}) {
    bool slow = true;
    std::thread later;
    host::Rewarded run(
        grpo(scratch / (waits ? "waits" : "later"), {{"reward_timeout", "0.5"}, {"max_steps", "1"}}),
        [&](trl_rollout* rollout) {
          if (!std::exchange(slow, false)) return host::reward_all(rollout);
          const auto answer = [rollout] {
            std::this_thread::sleep_for(std::chrono::milliseconds(700));
            return host::reward_all(rollout);
          };
          if (waits) return answer();
          later = std::thread([answer, rollout] {
            answer();
            trl_rollout_finish(rollout, nullptr, nullptr);
          });
          return int32_t{TRL_LATER};
        });
    EXPECT_EQ(run.train(), TRL_E_CALLBACK);
    EXPECT_EQ(run.error.key(), "reward_timeout");
    if (later.joinable()) later.join();
    EXPECT_EQ(run.train(), TRL_OK) << run.error.message();
  }
}

// A host that finishes a rollout once more when the next one is open.
TEST(LateAnswers, ToARolloutThatIsOverAreRefused) {
  NEED_MODEL();
  const host::Scratch scratch;
  std::vector<trl_rollout*> over;
  bool fails = true;
  const auto reward = [&](trl_rollout* rollout) {
    for (trl_rollout* const old : over) {
      Error error;
      const char* json = nullptr;
      EXPECT_EQ(trl_rollout_finish(old, nullptr, error), TRL_E_INVALID_ARGUMENT);
      EXPECT_TRUE(error.names("the rollout is over")) << error.message();
      EXPECT_EQ(trl_rollout_set_reward(old, 0, 1, error), TRL_E_INVALID_ARGUMENT);
      EXPECT_EQ(trl_rollout_get(old, 0, &json, error), TRL_E_INVALID_ARGUMENT);
      EXPECT_EQ(trl_rollout_count(old), 0u);
    }
    over.push_back(rollout);
    return over.size() == 2 && std::exchange(fails, false) ? -1 : host::reward_all(rollout);
  };
  host::Rewarded run(grpo(scratch / "out"), reward);
  EXPECT_EQ(run.train(), TRL_E_CALLBACK);
  EXPECT_EQ(run.train(), TRL_OK) << run.error.message();
  EXPECT_EQ(over.size(), 4u);
}

}  // namespace
}  // namespace unanswered_rollouts_test
