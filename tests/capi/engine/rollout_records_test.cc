// Records of trainers that write completions: times, and files of completions beside evaluations.
#include <sstream>
#include <thread>

#include "engine/rewarded.h"

namespace {

using host::grpo;
using host::Json;
using host::kPrompts;
using host::online_dpo;
using host::reward_all;
using host::Rewarded;
using host::Settings;

#define NEED_MODEL() NEED_GOLDEN("models/qwen2/model.safetensors")

// As in TRL: of all of a step but the optimizer, in training alone, and not of pairs.
TEST(RolloutRecords, TheMeanTimeOfAStepIsLogged) {
  NEED_MODEL();
  const host::Scratch scratch;
  const auto slow = [](trl_rollout* rollout) {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    return reward_all(rollout);
  };
  for (const char* method : {"grpo", "rloo"}) {
    Rewarded run(grpo(scratch / method, {{"method", method},
                                         {"max_steps", "4"},
                                         {"logging_steps", "2"},
                                         {"eval_strategy", "steps"},
                                         {"eval_steps", "2"},
                                         {"per_device_eval_batch_size", "4"}}),
                 slow, kPrompts, kPrompts);
    ASSERT_EQ(run.train(), TRL_OK) << run.error.message();
    const Json records = run.last();
    int logged = 0;
    double seconds = 0;
    for (const Json& record : records) {
      EXPECT_EQ(record.contains("step_time"), record.contains("loss")) << record;
      EXPECT_FALSE(record.contains("eval_step_time"));
      if (!record.contains("loss")) continue;
      EXPECT_GE(record["step_time"].get<double>(), 0.03) << method;
      seconds += 2 * record["step_time"].get<double>();
      ++logged;
    }
    EXPECT_EQ(logged, 2);
    EXPECT_LE(seconds, records.back()["train_runtime"].get<double>()) << method;
  }
  Rewarded pairs(online_dpo(scratch / "pairs"), reward_all);
  ASSERT_EQ(pairs.train(), TRL_OK) << pairs.error.message();
  EXPECT_FALSE(pairs.last()[0].contains("step_time"));
}

// Evaluations at the ends of epochs are recorded as they are made, and replayed as they were recorded.
TEST(RolloutRecords, EvaluationsBetweenEpochsStayInTheRecord) {
  NEED_MODEL();
  const host::Scratch scratch;
  const std::string file = scratch / "rollouts.jsonl";
  const Settings epochs = {
      {"max_steps", "6"}, {"eval_strategy", "epoch"}, {"per_device_eval_batch_size", "4"}};
  const auto records_of = [&](const char* folder, const char* key) {
    Rewarded run(grpo(scratch / folder, host::with(epochs, {{key, file}})), reward_all, kPrompts, kPrompts);
    EXPECT_EQ(run.train(), TRL_OK) << run.error.message();
    return run.last();
  };
  const Json recorded = records_of("recorded", "record_rollouts");
  std::string modes;
  std::istringstream lines(host::read_file(file));
  for (std::string line; std::getline(lines, line);) modes += host::parse(line)["mode"] == "eval" ? 'e' : 't';
  const std::string epoch = std::string(8, 't') + std::string(8, 'e');
  EXPECT_EQ(modes, epoch + epoch + epoch);
  const Json replayed = records_of("replayed", "replay_rollouts");
  ASSERT_EQ(replayed.size(), recorded.size());
  for (size_t i = 0; i < recorded.size(); ++i)
    for (const char* key : {"loss", "reward", "eval_loss", "eval_reward"})
      EXPECT_EQ(replayed[i].value(key, Json()), recorded[i].value(key, Json())) << i << key;
}

// A generation that failed is replayed from the same lines, the first one too.
TEST(RolloutRecords, AFailedGenerationIsReplayedAgain) {
  NEED_MODEL();
  const host::Scratch scratch;
  const std::string file = scratch / "rollouts.jsonl";
  Rewarded recorded(grpo(scratch / "recorded", {{"record_rollouts", file}}), reward_all);
  ASSERT_EQ(recorded.train(), TRL_OK) << recorded.error.message();
  std::string unrewarded;
  std::istringstream lines(host::read_file(file));
  for (std::string line; std::getline(lines, line);) {
    Json row = host::parse(line);
    row.erase("rewards");
    unrewarded += row.dump() + "\n";
  }
  host::write_file(file, unrewarded);
  int calls = 0;
  Rewarded run(grpo(scratch / "replayed", {{"replay_rollouts", file}}),
               [&](trl_rollout* rollout) { return ++calls == 1 || calls == 3 ? -1 : reward_all(rollout); });
  EXPECT_EQ(run.train(), TRL_E_CALLBACK);
  EXPECT_EQ(run.train(), TRL_E_CALLBACK);
  EXPECT_EQ(run.train(), TRL_OK) << run.error.message();
  EXPECT_EQ(run.last()[2]["loss"], recorded.last()[2]["loss"]);
}

}  // namespace
