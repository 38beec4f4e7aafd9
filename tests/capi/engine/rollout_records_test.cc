// Records of trainers that write completions: times, and files of completions beside evaluations.
#include <cmath>
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
using host::row_of;
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

// It is found before the first step, even if evaluations take the lines that are missing.
TEST(RolloutRecords, AFileThatEndsBeforeTheRunIsRefusedAtItsStart) {
  NEED_MODEL();
  const host::Scratch scratch;
  const std::string file = scratch / "rollouts.jsonl", part = scratch / "part.jsonl";
  const Settings epochs = {{"max_steps", "6"},
                           {"eval_strategy", "epoch"},
                           {"num_generations_eval", "2"},
                           {"per_device_eval_batch_size", "4"}};
  const auto settings = [&](const char* folder, const char* key, const std::string& path, const char* steps) {
    return grpo(scratch / folder, host::with(epochs, {{key, path}, {"max_steps", steps}}));
  };
  Rewarded recorded(settings("recorded", "record_rollouts", file, "6"), reward_all, kPrompts, kPrompts);
  ASSERT_EQ(recorded.train(), TRL_OK) << recorded.error.message();
  std::vector<std::string> lines;
  std::istringstream text(host::read_file(file));
  for (std::string line; std::getline(text, line);) lines.push_back(line + "\n");
  ASSERT_EQ(lines.size(), 3u * (8 + 8));  // an epoch has two generations of four, and eight of its evaluation
  const auto write_part = [&](size_t count) {
    std::string first;
    for (size_t i = 0; i < count; ++i) first += lines[i];
    host::write_file(part, first);
  };
  const auto refused = [&](size_t count) {
    write_part(count);
    Rewarded run(settings("part", "replay_rollouts", part, "6"), reward_all, kPrompts, kPrompts);
    EXPECT_EQ(run.train(), TRL_E_INVALID_CONFIG);
    EXPECT_EQ(run.error.key(), "replay_rollouts");
    EXPECT_EQ(host::state(run.trainer.get())["global_step"], 0);
    return run.error.message();
  };
  std::string why = refused(38);
  EXPECT_NE(why.find("it has 22 lines of training (5 generations) and 16 of evaluation, and the run needs 24 "
                     "(6 generations) and 24 of 3 evaluations up to step 6: give a file of this run, or "
                     "max_steps: 4"),
            std::string::npos)
      << why;
  why = refused(47);
  EXPECT_NE(why.find("and 23 of evaluation"), std::string::npos) << why;
  write_part(32);
  Rewarded run(settings("part", "replay_rollouts", part, "4"), reward_all, kPrompts, kPrompts);
  EXPECT_EQ(run.train(), TRL_OK) << run.error.message();
  // lines of larger generations
  Rewarded other(host::with(settings("part", "replay_rollouts", file, "2"),
                            {{"per_device_train_batch_size", "2"}, {"num_generations", "2"}}),
                 reward_all, kPrompts, kPrompts);
  EXPECT_EQ(other.train(), TRL_E_INVALID_CONFIG);
  EXPECT_TRUE(
      other.error.names("rollouts.jsonl:1: generation 0 begins here with 4 lines, and the run has 2 "
                        "completions in its generation 0"))
      << other.error.message();
}

// A run that resumes from its checkpoint takes the rest of the file.
TEST(RolloutRecords, AResumedRunNeedsTheRestOfItsFile) {
  NEED_MODEL();
  const host::Scratch scratch;
  const std::string file = scratch / "rollouts.jsonl";
  Rewarded recorded(grpo(scratch / "recorded", {{"record_rollouts", file}, {"max_steps", "4"}}), reward_all);
  ASSERT_EQ(recorded.train(), TRL_OK) << recorded.error.message();
  const auto settings = [&](const char* steps) {
    return grpo(scratch / "out", {{"replay_rollouts", file},
                                  {"max_steps", steps},
                                  {"save_strategy", "steps"},
                                  {"save_steps", "1"},
                                  {"resume_from_checkpoint", "auto"}});
  };
  {
    Rewarded part(settings("4"), reward_all);
    for (int step = 0; step < 3; ++step)
      ASSERT_EQ(trl_trainer_step(part.trainer.get(), nullptr, part.error), TRL_OK) << part.error.message();
  }
  {
    Rewarded longer(settings("6"), reward_all);
    EXPECT_EQ(longer.train(), TRL_E_INVALID_CONFIG);
    EXPECT_TRUE(
        longer.error.names("from line 13 on it has 4 lines of training (1 generation), and the run "
                           "needs 12 (3 generations) up to step 6"))
        << longer.error.message();
    EXPECT_TRUE(longer.error.names("or max_steps: 4")) << longer.error.message();
  }
  Rewarded rest(settings("4"), reward_all);
  EXPECT_EQ(rest.train(), TRL_OK) << rest.error.message();
  EXPECT_EQ(rest.last()[3]["loss"], recorded.last()[3]["loss"]);
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

// A run of three epochs of two updates, each with a generation whose rows change their places, and what it
// records.
Settings shuffled(const host::Scratch& scratch, const std::string& folder, const Settings& more) {
  const Settings own = {{"steps_per_generation", "2"},
                        {"max_steps", "6"},
                        {"per_device_eval_batch_size", "4"},
                        {"record_rollouts", scratch / (folder + ".jsonl")}};
  return grpo(scratch / folder, host::with(own, more));
}

// The losses of a run, and its file of completions.
std::pair<std::vector<double>, std::string> outcome(const host::Scratch& scratch, const std::string& folder,
                                                    Rewarded& run) {
  EXPECT_EQ(run.train(), TRL_OK) << run.error.message();
  std::vector<double> losses;
  for (const Json& record : run.last())
    for (const char* key : {"loss", "eval_loss", "eval_reward"})
      if (record.contains(key)) losses.push_back(record[key].get<double>());
  return {losses, host::read_file(scratch / (folder + ".jsonl"))};
}

// Draws and lines of an evaluation that failed are taken back: it is made again, at once or in a resumed run.
TEST(RolloutRecords, AnEvaluationThatFailedLeavesNoTrace) {
  NEED_MODEL();
  const host::Scratch scratch;
  const Settings evaluates = {{"eval_strategy", "steps"}, {"eval_steps", "2"}};
  const auto settings = [&](const std::string& folder, const Settings& more = {}) {
    return shuffled(scratch, folder, host::with(evaluates, more));
  };
  Rewarded whole(settings("whole"), reward_all, kPrompts, kPrompts);
  const auto want = outcome(scratch, "whole", whole);
  for (const bool resumes : {false, true}) {
    const std::string folder = resumes ? "resumed" : "again";
    int batches = 0;
    Rewarded run(
        settings(folder),
        [&](trl_rollout* rollout) {
          const bool fails = row_of(rollout, 0)["mode"] == "eval" && ++batches == 2;
          return fails ? -1 : reward_all(rollout);
        },
        kPrompts, kPrompts);
    EXPECT_EQ(run.train(), TRL_E_CALLBACK);
    if (!resumes) {
      EXPECT_EQ(outcome(scratch, folder, run), want);
      continue;
    }
    const host::Config checkpoint = host::config({{"save.kind", "checkpoint"}});
    ASSERT_EQ(trl_trainer_save(run.trainer.get(), nullptr, checkpoint.get(), run.error), TRL_OK)
        << run.error.message();
    run.trainer.reset();
    Rewarded rest(settings(folder, {{"resume_from_checkpoint", "true"}}), reward_all, kPrompts, kPrompts);
    EXPECT_EQ(outcome(scratch, folder, rest), want);
  }
}

// The evaluation at the end of an epoch comes after the checkpoint of its last step.
TEST(RolloutRecords, AResumedRunMayBeginWithAnEvaluation) {
  NEED_MODEL();
  const host::Scratch scratch;
  const Settings own = {{"eval_strategy", "epoch"}, {"save_strategy", "steps"}, {"save_steps", "2"}};
  const auto settings = [&](const std::string& folder, const Settings& more = {}) {
    return shuffled(scratch, folder, host::with(own, more));
  };
  Rewarded whole(settings("whole"), reward_all, kPrompts, kPrompts);
  const auto want = outcome(scratch, "whole", whole);
  Rewarded part(settings("part"), reward_all, kPrompts, kPrompts);
  for (int step = 0; step < 2; ++step)
    ASSERT_EQ(trl_trainer_step(part.trainer.get(), nullptr, part.error), TRL_OK) << part.error.message();
  part.trainer.reset();
  Rewarded rest(settings("part", {{"resume_from_checkpoint", "true"}}), reward_all, kPrompts, kPrompts);
  EXPECT_EQ(outcome(scratch, "part", rest), want);
}

TEST(RolloutRecords, AnEvaluationBatchHoldsWholeGroups) {
  NEED_MODEL();
  const host::Scratch scratch;
  Rewarded run(grpo(scratch / "out", {{"num_generations_eval", "3"}}), reward_all, kPrompts, kPrompts);
  EXPECT_EQ(trl_trainer_evaluate(run.trainer.get(), nullptr, nullptr, run.error), TRL_E_INVALID_CONFIG);
  EXPECT_EQ(run.error.key(), "per_device_eval_batch_size");
  EXPECT_TRUE(run.error.names("8 is not a multiple of the 3 completions")) << run.error.message();
}

// The prompts of a batch that is left out count nowhere.
TEST(RolloutRecords, AnEvaluationLeavesOutABatchThatIsNotFull) {
  NEED_MODEL();
  constexpr const char* kThree = R"({"prompt": "Tell me of the sea:"}
{"prompt": "Name a planet:"}
{"prompt": "What is a tensor?"}
)";
  const auto evaluated = [&](const char* batch, const char* drops) {
    const host::Scratch scratch;
    int rows = 0;
    Rewarded run(
        grpo(scratch / "out", {{"max_steps", "1"},
                               {"eval_strategy", "steps"},
                               {"eval_steps", "1"},
                               {"eval_pass_at_k", "[1]"},
                               {"per_device_eval_batch_size", batch},
                               {"dataloader_drop_last", drops}}),
        [&](trl_rollout* rollout) {
          for (size_t i = 0; i < trl_rollout_count(rollout); ++i) {
            rows += row_of(rollout, i)["mode"] == "eval" ? 1 : 0;
            EXPECT_EQ(trl_rollout_set_reward(rollout, i, 1, nullptr), TRL_OK);
          }
          return int32_t{TRL_OK};
        },
        kPrompts, kThree);
    EXPECT_EQ(run.train(), TRL_OK) << run.error.message();
    const Json record = run.last()[1];
    EXPECT_TRUE(record.contains("eval_runtime")) << record;
    EXPECT_EQ(record.contains("eval_pass_at_k/1"), rows > 0) << record;
    if (rows > 0) {
      EXPECT_NEAR(record["eval_pass_at_k/1"].get<double>(), 1, 1e-9);
    }
    return rows;
  };
  EXPECT_EQ(evaluated("4", "false"), 6);
  EXPECT_EQ(evaluated("4", "true"), 4);
  EXPECT_EQ(evaluated("8", "true"), 0);
}

// Batches of a loss that is left out count alike: all that are left are full.
TEST(RolloutRecords, TheLossOfAnEvaluationIsTheMeanOfItsFullBatches) {
  NEED_MODEL();
  const host::Scratch scratch;
  // Replays completions of these lengths, of which longer ones are better.
  const auto loss = [&](const char* rows, const std::vector<size_t>& lengths) {
    std::string lines;
    for (const size_t length : lengths) {
      const Json line = {{"completion_ids", std::vector<int>(length, 5)}, {"rewards", {{"points", length}}}};
      lines += line.dump() + "\n";
    }
    host::write_file(scratch / "rollouts.jsonl", lines);
    Rewarded run(grpo(scratch / "out", {{"loss_type", "dapo"},
                                        {"per_device_eval_batch_size", "4"},
                                        {"dataloader_drop_last", "true"},
                                        {"replay_rollouts", scratch / "rollouts.jsonl"}}),
                 reward_all, kPrompts, rows);
    const trl_metrics* metrics = nullptr;
    EXPECT_EQ(trl_trainer_evaluate(run.trainer.get(), nullptr, &metrics, run.error), TRL_OK)
        << run.error.message();
    return metrics != nullptr ? host::metric(metrics, "eval_loss") : 0.0;
  };
  constexpr const char* kTwo = R"({"prompt": "Tell me of the sea:"}
{"prompt": "Name a planet:"}
)";
  const std::string five = std::string(kPrompts) + "{\"prompt\": \"Count the stars:\", \"target\": 5}\n";
  const double first = loss(kTwo, {1, 4, 1, 4}), second = loss(kTwo, {1, 2, 1, 2});
  EXPECT_GT(std::abs(first - second), 0.05);
  EXPECT_NEAR(loss(five.c_str(), {1, 4, 1, 4, 1, 2, 1, 2}), (first + second) / 2, 1e-5);
}

}  // namespace
