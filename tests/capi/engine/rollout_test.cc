// Functions of the host that reward completions and write them.
#include <atomic>
#include <cmath>
#include <thread>

#include "engine/rewarded.h"

namespace {

using host::call;
using host::Error;
using host::Function;
using host::grpo;
using host::Json;
using host::kPrompts;
using host::online_dpo;
using host::reward_all;
using host::Rewarded;
using host::row_of;
using host::Settings;

#define NEED_MODEL() NEED_GOLDEN("models/qwen2/model.safetensors")

TEST(Rollouts, ARewardSeesEachRowAndTrains) {
  NEED_MODEL();
  const host::Scratch scratch;
  std::atomic<int> calls = 0;
  Rewarded run(grpo(scratch / "out"), [&](trl_rollout* rollout) {
    EXPECT_EQ(trl_rollout_count(rollout), 4u);
    for (size_t i = 0; i < 4; ++i) {
      const Json row = row_of(rollout, i);
      EXPECT_EQ(row["mode"], "train");
      EXPECT_EQ(row["step"], calls.load());
      EXPECT_TRUE(row["prompt"].is_string());
      EXPECT_TRUE(row["completion"].is_string());
      EXPECT_EQ(row["columns"]["target"].get<int64_t>(), row["row"].get<int64_t>() + 1);
      EXPECT_GT(row["completion_ids"].size(), 0u);
      EXPECT_LE(row["completion_ids"].size(), 5u);
    }
    EXPECT_EQ(row_of(rollout, 0)["prompt_ids"], row_of(rollout, 1)["prompt_ids"]);
    Error error;
    EXPECT_EQ(trl_rollout_log(rollout, "longest", 5, error), TRL_OK);
    ++calls;
    return reward_all(rollout);
  });
  ASSERT_EQ(run.train(), TRL_OK) << run.error.message();
  EXPECT_EQ(calls, 3);
  const Json records = run.last();
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(records[i].contains("rewards/points/mean"));
    EXPECT_EQ(records[i]["longest"], 5.0);
  }
}

// dr_grpo divides by max_completion_length, whatever generation_kwargs lets the model write.
TEST(Rollouts, DrGrpoDividesByTheTrainersLength) {
  NEED_MODEL();
  const host::Scratch scratch;
  const auto record = [&](const char* folder, const char* length) {
    Rewarded run(grpo(scratch / folder, {{"loss_type", "dr_grpo"},
                                         {"max_steps", "1"},
                                         {"max_completion_length", length},
                                         {"generation_kwargs", "{max_new_tokens: 5}"}}),
                 reward_all);
    EXPECT_EQ(run.train(), TRL_OK) << run.error.message();
    return run.last()[0];
  };
  const Json usual = record("usual", "5"), twice = record("twice", "10");
  EXPECT_EQ(twice["completions/max_length"], usual["completions/max_length"]);
  const double norm = usual["grad_norm"];
  EXPECT_GT(norm, 0);
  EXPECT_NEAR(twice["grad_norm"].get<double>(), norm / 2, 1e-5 * norm);
}

TEST(Rollouts, ARewardMayAnswerLaterFromAnotherThread) {
  NEED_MODEL();
  const host::Scratch scratch;
  std::thread later;
  const auto at_once = [&] {
    Rewarded run(grpo(scratch / "a"), reward_all);
    EXPECT_EQ(run.train(), TRL_OK) << run.error.message();
    return run.last()[2]["loss"];
  };
  Rewarded run(grpo(scratch / "b"), [&](trl_rollout* rollout) {
    if (later.joinable()) later.join();
    later = std::thread([rollout] {
      reward_all(rollout);
      Error error;
      EXPECT_EQ(trl_rollout_finish(rollout, nullptr, error), TRL_OK) << error.message();
    });
    return int32_t{TRL_LATER};
  });
  EXPECT_EQ(run.train(), TRL_OK) << run.error.message();
  later.join();
  EXPECT_EQ(run.last()[2]["loss"], at_once());
}

TEST(Rollouts, AFailedRewardEndsTheStepAndCanBeTriedAgain) {
  NEED_MODEL();
  const host::Scratch scratch;
  int calls = 0;
  Rewarded run(grpo(scratch / "out"),
               [&](trl_rollout* rollout) { return ++calls == 2 ? -42 : reward_all(rollout); });
  EXPECT_EQ(run.train(), TRL_E_CALLBACK);
  EXPECT_EQ(trl_error_callback_code(run.error.get()), -42);
  EXPECT_TRUE(run.error.names("the host's reward points callback returned -42")) << run.error.message();
  EXPECT_EQ(run.train(), TRL_OK) << run.error.message();
  const auto whole = [&] {
    Rewarded other(grpo(scratch / "other"), reward_all);
    EXPECT_EQ(other.train(), TRL_OK);
    return other.last()[2]["loss"];
  };
  EXPECT_EQ(run.last()[2]["loss"], whole());
}

TEST(Rollouts, ARewardMustSetEachRowOnce) {
  NEED_MODEL();
  const host::Scratch scratch;
  Rewarded some(grpo(scratch / "some"),
                [](trl_rollout* rollout) { return trl_rollout_set_reward(rollout, 0, 1, nullptr); });
  EXPECT_EQ(some.train(), TRL_E_CALLBACK);
  EXPECT_TRUE(some.error.names("set no reward for row 1 of 4")) << some.error.message();
  Rewarded twice(grpo(scratch / "twice"), [](trl_rollout* rollout) {
    Error error;
    EXPECT_EQ(trl_rollout_set_reward(rollout, 0, 1, error), TRL_OK);
    EXPECT_EQ(trl_rollout_set_reward(rollout, 0, 1, error), TRL_E_INVALID_ARGUMENT);
    EXPECT_TRUE(error.names("index 0: its reward was set before")) << error.message();
    EXPECT_EQ(trl_rollout_set_reward(rollout, 4, 1, error), TRL_E_INVALID_ARGUMENT);
    EXPECT_TRUE(error.names("index 4: the rollout has 4 rows")) << error.message();
    return -1;
  });
  EXPECT_EQ(twice.train(), TRL_E_CALLBACK);
}

// What a reward has logged before it failed is not that of its next answer.
TEST(Rollouts, AFailedRewardLogsNothing) {
  NEED_MODEL();
  const host::Scratch scratch;
  int calls = 0;
  Rewarded run(grpo(scratch / "out", {{"max_steps", "1"}}), [&](trl_rollout* rollout) {
    Error error;
    const bool fails = ++calls == 1;
    EXPECT_EQ(trl_rollout_log(rollout, "longest", fails ? 1 : 3, error), TRL_OK) << error.message();
    if (!fails) return reward_all(rollout);
    EXPECT_EQ(trl_rollout_set_value(rollout, 0, "error", R"("no answer")", error), TRL_OK) << error.message();
    return int32_t{TRL_OK};
  });
  EXPECT_EQ(run.train(), TRL_E_CALLBACK);
  EXPECT_TRUE(run.error.names("set no reward for row 1 of 4")) << run.error.message();
  EXPECT_EQ(run.train(), TRL_OK) << run.error.message();
  EXPECT_EQ(run.last()[0]["longest"], 3.0);
}

// As in TRL, each generation counts once.
TEST(Rollouts, ALoggedMetricIsTheMeanOfEachGeneration) {
  NEED_MODEL();
  const host::Scratch scratch;
  int calls = 0;
  Rewarded run(
      grpo(scratch / "out", {{"max_steps", "2"}, {"logging_steps", "2"}}), [&](trl_rollout* rollout) {
        Error error;
        const bool first = ++calls == 1;
        for (int i = 0; i < (first ? 1 : 3); ++i)
          EXPECT_EQ(trl_rollout_log(rollout, "longest", first ? 1 : 4, error), TRL_OK) << error.message();
        return reward_all(rollout);
      });
  ASSERT_EQ(run.train(), TRL_OK) << run.error.message();
  EXPECT_EQ(run.last()[0]["longest"], 2.5);
}

TEST(Rollouts, ARewardThatNeverAnswersEndsTheStep) {
  NEED_MODEL();
  const host::Scratch scratch;
  Rewarded run(grpo(scratch / "out", {{"reward_timeout", "0.05"}}),
               [](trl_rollout*) { return int32_t{TRL_LATER}; });
  EXPECT_EQ(run.train(), TRL_E_CALLBACK);
  EXPECT_EQ(run.error.key(), "reward_timeout");
  EXPECT_TRUE(run.error.names("points did not answer within reward_timeout: 0.05 seconds"))
      << run.error.message();
}

// Rewards are compared in float32.
TEST(Rollouts, ARewardBeyondFloat32Fails) {
  NEED_MODEL();
  const host::Scratch scratch;
  for (const double value : {HUGE_VAL, -HUGE_VAL, 1e39}) {
    Rewarded run(grpo(scratch / "out"), [&](trl_rollout* rollout) {
      for (size_t i = 0; i < 4; ++i) trl_rollout_set_reward(rollout, i, i == 2 ? value : 1, nullptr);
      return int32_t{TRL_OK};
    });
    EXPECT_EQ(run.train(), TRL_E_CALLBACK);
    EXPECT_TRUE(run.error.names("the reward points gave")) << run.error.message();
    EXPECT_TRUE(run.error.names("for completion 2 of 4: give a number of float32")) << run.error.message();
  }
}

TEST(Rollouts, AFunctionMayFinishBeforeItReturns) {
  NEED_MODEL();
  const host::Scratch scratch;
  const char* reason = nullptr;
  const auto reward = [&](trl_rollout* rollout) {
    reward_all(rollout);
    EXPECT_EQ(trl_rollout_finish(rollout, reason, nullptr), TRL_OK);
    return int32_t{TRL_OK};
  };
  Rewarded run(grpo(scratch / "out"), reward);
  EXPECT_EQ(run.train(), TRL_OK) << run.error.message();
  const std::pair<const char*, const char*> failures[] = {
      {"out\nof \xff", "the reward points failed: out of \xEF\xBF\xBD"}, {"", "the reward points failed"}};
  for (const auto& [given, told] : failures) {
    reason = given;
    Rewarded failed(grpo(scratch / "failed"), reward);
    EXPECT_EQ(failed.train(), TRL_E_CALLBACK);
    EXPECT_TRUE(failed.error.names(told)) << failed.error.message();
  }
}

TEST(Rollouts, ARewardIsFinishedOnce) {
  NEED_MODEL();
  const host::Scratch scratch;
  Rewarded run(grpo(scratch / "out", {{"max_steps", "1"}}), [&](trl_rollout* rollout) {
    reward_all(rollout);
    Error error;
    EXPECT_EQ(trl_rollout_finish(rollout, nullptr, error), TRL_OK) << error.message();
    for (const char* reason : {static_cast<const char*>(nullptr), "out of luck"}) {
      EXPECT_EQ(trl_rollout_finish(rollout, reason, error), TRL_E_INVALID_ARGUMENT);
      EXPECT_TRUE(error.names("the rollout was finished before")) << error.message();
    }
    EXPECT_EQ(trl_rollout_set_reward(rollout, 0, 1, error), TRL_E_INVALID_ARGUMENT);
    return int32_t{TRL_LATER};
  });
  EXPECT_EQ(run.train(), TRL_OK) << run.error.message();
}

TEST(Rollouts, OnRewardErrorNoneScoresNothing) {
  NEED_MODEL();
  const host::Scratch scratch;
  Rewarded run(grpo(scratch / "out", {{"on_reward_error", "none"}}), [](trl_rollout*) { return -1; });
  EXPECT_EQ(run.train(), TRL_OK) << run.error.message();
  EXPECT_TRUE(run.last()[0]["reward"].is_null()) << run.last()[0].dump();
}

// TRL loses a column of that name.
TEST(Rollouts, ARewardSeesAColumnNamedCompletion) {
  NEED_MODEL();
  const host::Scratch scratch;
  constexpr const char* kAnswered =
      R"({"prompt": "Tell me of the sea:", "completion": "It is wide.", "completion_ids": [1]}
{"prompt": "Name a planet:", "completion": "Mars.", "completion_ids": [2]}
)";
  int seen = 0;
  Rewarded run(
      grpo(scratch / "out", {{"max_steps", "1"}}),
      [&](trl_rollout* rollout) {
        for (size_t i = 0; i < trl_rollout_count(rollout); ++i, ++seen) {
          const Json row = row_of(rollout, i);
          EXPECT_EQ(row["columns"].size(), 1u) << row;
          EXPECT_EQ(row["columns"]["completion"], row["row"] == 0 ? "It is wide." : "Mars.");
          EXPECT_NE(row["completion"], row["columns"]["completion"]);
        }
        return reward_all(rollout);
      },
      kAnswered);
  ASSERT_EQ(run.train(), TRL_OK) << run.error.message();
  EXPECT_EQ(seen, 4);
}

TEST(Rollouts, ARunWithoutRewardsIsRefused) {
  NEED_MODEL();
  const host::Scratch scratch;
  const host::Dataset rows = host::rows(kPrompts);
  const host::Trainer trainer = host::trainer(grpo(scratch / "out"), rows.get());
  Error error;
  EXPECT_EQ(trl_trainer_train(trainer.get(), nullptr, nullptr, error), TRL_E_INVALID_CONFIG);
  EXPECT_EQ(error.key(), "reward_funcs");
}

TEST(Rollouts, RowsWithoutTheColumnOfARewardAreRefused) {
  NEED_MODEL();
  const host::Scratch scratch;
  const host::Dataset rows = host::rows(kPrompts);
  const auto create = [&](const Settings& more, Error& error) {
    trl_trainer* made = nullptr;
    const auto config =
        host::config(grpo(scratch / "out", host::with({{"reward_funcs", "accuracy_reward"}}, more)));
    const trl_status status = trl_trainer_create(nullptr, config.get(), rows.get(), nullptr, &made, error);
    trl_trainer_destroy(made);
    return status;
  };
  Error error;
  EXPECT_EQ(create({}, error), TRL_E_INVALID_CONFIG);
  EXPECT_TRUE(error.names("dataset row 0 has no column solution")) << error.message();
  EXPECT_TRUE(error.names("its columns: target")) << error.message();
  EXPECT_EQ(create({{"on_reward_error", "none"}}, error), TRL_OK) << error.message();
}

TEST(Rollouts, ABudgetThatLeavesNothingForGenerationIsRefused) {
  NEED_MODEL();
  const host::Scratch scratch;
  const host::Dataset rows = host::rows(kPrompts);
  trl_trainer* made = nullptr;
  Error error;
  EXPECT_EQ(
      trl_trainer_create(nullptr, host::config(grpo(scratch / "out", {{"memory_budget", "40MB"}})).get(),
                         rows.get(), nullptr, &made, error),
      TRL_E_INVALID_CONFIG);
  EXPECT_EQ(error.key(), "memory_budget") << error.message();
}

TEST(Rollouts, TooFewPromptsAreRefused) {
  NEED_MODEL();
  const host::Scratch scratch;
  const host::Dataset rows = host::rows("{\"prompt\": \"one\"}\n");
  trl_trainer* made = nullptr;
  Error error;
  EXPECT_EQ(trl_trainer_create(nullptr, host::config(grpo(scratch / "out")).get(), rows.get(), nullptr, &made,
                               error),
            TRL_E_INVALID_CONFIG);
  EXPECT_TRUE(error.names("it has 1 prompt, and a generation takes 2 (its 4 completions are 2 of each)"))
      << error.message();
}

TEST(Rollouts, NamesOfRewardsDiffer) {
  NEED_MODEL();
  const host::Scratch scratch;
  Rewarded run(grpo(scratch / "out"), reward_all);
  EXPECT_EQ(trl_trainer_add_reward(run.trainer.get(), "points", call, &run.reward, nullptr, run.error),
            TRL_E_INVALID_CONFIG);
  EXPECT_TRUE(run.error.names("two rewards are called points")) << run.error.message();
}

TEST(Rollouts, AFunctionTakesThePlaceOfACommand) {
  NEED_MODEL();
  const host::Scratch scratch;
  const Settings command = {{"reward_funcs", "[\"points=command:./points --all\", think_format_reward]"},
                            {"reward_weights", "[3, 0]"},
                            {"max_steps", "1"}};
  Rewarded run(grpo(scratch / "out", command), reward_all);
  ASSERT_EQ(run.train(), TRL_OK) << run.error.message();
  const Json record = run.last()[0];
  EXPECT_NEAR(record["reward"].get<double>(), 3 * record["rewards/points/mean"].get<double>(), 1e-6);

  const host::Dataset rows = host::rows(kPrompts);
  const host::Trainer alone = host::trainer(grpo(scratch / "alone", command), rows.get());
  Error error;
  EXPECT_EQ(trl_trainer_train(alone.get(), nullptr, nullptr, error), TRL_E_INVALID_CONFIG);
  EXPECT_TRUE(error.names("'points=command:./points --all': the trl command runs programs"))
      << error.message();
}

// Five prompts in batches of two: the mean over batches is that over prompts.
TEST(Rollouts, EvaluationsEstimatePassAtK) {
  NEED_MODEL();
  const host::Scratch scratch;
  std::string prompts;
  for (int right = 0; right < 5; ++right)
    prompts += Json({{"prompt", "Name a planet:"}, {"right", right}}).dump() + "\n";
  // Of the four completions of prompt i, i are right.
  const auto reward = [](trl_rollout* rollout) {
    std::map<int64_t, int> made;
    for (size_t i = 0; i < trl_rollout_count(rollout); ++i) {
      const Json row = row_of(rollout, i);
      const bool right = row["mode"] == "eval" && made[row["row"]]++ < row["columns"]["right"];
      trl_rollout_set_reward(rollout, i, right ? 1 : 0.5, nullptr);
    }
    return int32_t{TRL_OK};
  };
  const Settings passes = {{"eval_pass_at_k", "[1, 2, 4]"},     {"num_generations_eval", "4"},
                           {"per_device_eval_batch_size", "8"}, {"max_steps", "1"},
                           {"eval_strategy", "steps"},          {"eval_steps", "1"}};
  Rewarded run(grpo(scratch / "out", passes), reward, kPrompts, prompts.c_str());
  ASSERT_EQ(run.train(), TRL_OK) << run.error.message();
  const Json record = run.last()[1];
  EXPECT_NEAR(record["eval_pass_at_k/1"].get<double>(), (0 + 0.25 + 0.5 + 0.75 + 1) / 5, 1e-9);
  EXPECT_NEAR(record["eval_pass_at_k/2"].get<double>(), (0 + 3 / 6.0 + 5 / 6.0 + 1 + 1) / 5, 1e-9);
  EXPECT_NEAR(record["eval_pass_at_k/4"].get<double>(), 4 / 5.0, 1e-9);
  EXPECT_FALSE(run.last()[0].contains("pass_at_k/1"));

  const Settings two = host::with(passes, {{"reward_funcs", "think_format_reward"}});
  Rewarded unnamed(grpo(scratch / "unnamed", two), reward, kPrompts, prompts.c_str());
  EXPECT_EQ(unnamed.train(), TRL_E_INVALID_CONFIG);
  EXPECT_TRUE(unnamed.error.names("give one of think_format_reward, points")) << unnamed.error.message();
  Rewarded named(grpo(scratch / "named", host::with(two, {{"eval_pass_reward", "points"}})), reward, kPrompts,
                 prompts.c_str());
  ASSERT_EQ(named.train(), TRL_OK) << named.error.message();
  EXPECT_EQ(named.last()[1]["eval_pass_at_k/2"], record["eval_pass_at_k/2"]);
}

TEST(Rollouts, OtherMethodsHaveNoUseForThem) {
  NEED_MODEL();
  const host::Scratch scratch;
  const host::Dataset rows = host::open_rows(host::golden("data/datasets/train_lm.jsonl"));
  const host::Trainer trainer = host::trainer(host::tiny(scratch / "out"), rows.get());
  Function reward = reward_all;
  Error error;
  EXPECT_EQ(trl_trainer_add_reward(trainer.get(), "points", call, &reward, nullptr, error),
            TRL_E_INVALID_ARGUMENT);
  EXPECT_TRUE(error.names("method sft writes no completions")) << error.message();
}

// The host's completions, and columns that its reward reads.
TEST(Rollouts, TheHostMayWriteCompletions) {
  NEED_MODEL();
  const host::Scratch scratch;
  Rewarded run(grpo(scratch / "out"), [](trl_rollout* rollout) {
    for (size_t i = 0; i < trl_rollout_count(rollout); ++i) {
      const Json row = row_of(rollout, i);
      EXPECT_EQ(row["completion_ids"], Json({10, 11, static_cast<int>(i)}));
      EXPECT_EQ(row["columns"]["place"], i);
      EXPECT_EQ(trl_rollout_set_reward(rollout, i, static_cast<double>(i), nullptr), TRL_OK);
    }
    return int32_t{TRL_OK};
  });
  Function write = [](trl_rollout* rollout) {
    Error error;
    for (size_t i = 0; i < trl_rollout_count(rollout); ++i) {
      EXPECT_FALSE(row_of(rollout, i).contains("completion"));
      const int32_t ids[] = {10, 11, static_cast<int32_t>(i)};
      const uint8_t written[] = {1, 0, 1};
      const std::string columns = Json({{"place", i}}).dump();
      EXPECT_EQ(trl_rollout_set_completion(rollout, i, ids, 3, nullptr, written, columns.c_str(), error),
                TRL_OK)
          << error.message();
    }
    return int32_t{TRL_OK};
  };
  ASSERT_EQ(trl_trainer_set_rollout(run.trainer.get(), call, &write, nullptr, run.error), TRL_OK);
  ASSERT_EQ(run.train(), TRL_OK) << run.error.message();
  EXPECT_EQ(run.last()[0]["completions/mean_length"], 2.0);
}

TEST(Rollouts, IdsOutsideTheVocabularyEndTheStep) {
  NEED_MODEL();
  const host::Scratch scratch;
  Rewarded run(grpo(scratch / "out"), [](trl_rollout* rollout) {
    for (size_t i = 0; i < trl_rollout_count(rollout); ++i) trl_rollout_set_reward(rollout, i, 1, nullptr);
    return int32_t{TRL_OK};
  });
  int32_t ids[] = {5, 100000};
  Function write = [&](trl_rollout* rollout) {
    const float infinite[] = {-1, -HUGE_VALF};
    Error error;
    EXPECT_EQ(trl_rollout_set_completion(rollout, 0, ids, 2, infinite, nullptr, nullptr, error),
              TRL_E_INVALID_ARGUMENT);
    EXPECT_TRUE(error.names("log_probs[1]: -inf is not accepted")) << error.message();
    for (size_t i = 0; i < trl_rollout_count(rollout); ++i)
      trl_rollout_set_completion(rollout, i, ids, 2, nullptr, nullptr, nullptr, nullptr);
    return int32_t{TRL_OK};
  };
  ASSERT_EQ(trl_trainer_set_rollout(run.trainer.get(), call, &write, nullptr, run.error), TRL_OK);
  EXPECT_EQ(run.train(), TRL_E_INVALID_ARGUMENT);
  EXPECT_TRUE(run.error.names("the host's rollout gave 100000 in row 0 of 4")) << run.error.message();
  ids[1] = -1;
  EXPECT_EQ(run.train(), TRL_E_INVALID_ARGUMENT);
  EXPECT_TRUE(run.error.names("give ids from 0 to 511")) << run.error.message();
}

TEST(Rollouts, CompletionsBeyondTheLearnedPositionsAreRefused) {
  NEED_GOLDEN("models/gpt2/model.safetensors");
  const host::Scratch scratch;
  for (const char* method : {"grpo", "rloo", "online_dpo"}) {
    const Settings settings = std::string(method) == "online_dpo"
                                  ? online_dpo(scratch / method)
                                  : grpo(scratch / method, {{"method", method}});
    Rewarded run(host::with(settings, {{"model_name_or_path", host::golden("models/gpt2")}}), reward_all);
    Function write = [](trl_rollout* rollout) {
      const std::vector<int32_t> ids(300, 5);
      for (size_t i = 0; i < trl_rollout_count(rollout); ++i)
        trl_rollout_set_completion(rollout, i, ids.data(), ids.size(), nullptr, nullptr, nullptr, nullptr);
      return int32_t{TRL_OK};
    };
    ASSERT_EQ(trl_trainer_set_rollout(run.trainer.get(), call, &write, nullptr, run.error), TRL_OK);
    EXPECT_EQ(run.train(), TRL_E_INVALID_ARGUMENT);
    EXPECT_TRUE(run.error.names("the host's rollout: completion 0 of")) << run.error.message();
    EXPECT_TRUE(run.error.names("the model has learned 256 positions")) << run.error.message();
  }
}

// A recorded run, played again, is the same bit for bit; so is one that was stopped after three steps and
// resumed. settings_of: of a run of six steps in this folder.
void expect_the_same_again(const std::function<Settings(const std::string&, const Settings&)>& settings_of) {
  const host::Scratch scratch;
  const auto weights = [&](const char* folder) {
    return host::read_safetensors(scratch / folder / "model.safetensors");
  };
  const auto finish = [](Rewarded& run) {
    EXPECT_EQ(run.train(), TRL_OK) << run.error.message();
    EXPECT_EQ(trl_trainer_save(run.trainer.get(), nullptr, nullptr, run.error), TRL_OK)
        << run.error.message();
  };
  const std::string file = scratch / "rollouts.jsonl";
  Rewarded recorded(settings_of(scratch / "recorded", {{"record_rollouts", file}}), reward_all);
  finish(recorded);
  Rewarded replayed(settings_of(scratch / "replayed", {{"replay_rollouts", file}}), reward_all);
  finish(replayed);
  EXPECT_EQ(weights("replayed"), weights("recorded"));

  const Settings saves = {{"save_strategy", "steps"}, {"save_steps", "1"}};
  Rewarded part(settings_of(scratch / "resumed", saves), reward_all);
  for (int step = 0; step < 3; ++step)
    ASSERT_EQ(trl_trainer_step(part.trainer.get(), nullptr, part.error), TRL_OK) << part.error.message();
  part.trainer.reset();
  Rewarded rest(host::with(settings_of(scratch / "resumed", saves), {{"resume_from_checkpoint", "true"}}),
                reward_all);
  finish(rest);
  EXPECT_EQ(weights("resumed"), weights("recorded"));
}

// It stops in the middle of a generation.
TEST(Rollouts, AReplayedAndAResumedRunAreTheSame) {
  NEED_MODEL();
  expect_the_same_again([](const std::string& folder, const Settings& more) {
    const Settings own = {
        {"steps_per_generation", "2"}, {"num_iterations", "2"}, {"max_steps", "6"}, {"beta", "0.1"}};
    return host::with(grpo(folder, own), more);
  });
}

TEST(Rollouts, ACheckpointHasTheStateOfTheEntropyControl) {
  NEED_MODEL();
  const host::Scratch scratch;
  const Settings own = {{"use_adaptive_entropy", "true"}, {"entropy_target", "100"}, {"entropy_coef", "0.5"},
                        {"save_strategy", "steps"},       {"save_steps", "1"},       {"max_steps", "2"}};
  Rewarded run(grpo(scratch / "out", own), reward_all);
  ASSERT_EQ(run.train(), TRL_OK) << run.error.message();
  const Json state = host::parse(host::read_file(scratch / "out/checkpoint-2/entropy_ctrl_state.json"));
  EXPECT_NEAR(state["entropy_coef"].get<double>(), 0.51, 1e-9);
  EXPECT_GT(state["last_world_entropy"].get<double>(), 1.0);
}

TEST(Rollouts, PairsReplayedAndResumedAreTheSame) {
  NEED_MODEL();
  expect_the_same_again([](const std::string& folder, const Settings& more) {
    const Settings own = {{"max_steps", "6"},
                          {"gradient_accumulation_steps", "2"},
                          {"per_device_train_batch_size", "1"},
                          {"beta", "[0.1, 0.5]"},
                          {"max_length", "8"}};
    return host::with(online_dpo(folder, own), more);
  });
}

// Rows are the first completions of all prompts, then the second ones, and as long as the longest.
TEST(Rollouts, PairsAreTwoCompletionsOfEachPrompt) {
  NEED_MODEL();
  const host::Scratch scratch;
  int calls = 0;
  const Settings settings = online_dpo(scratch / "out", {{"per_device_train_batch_size", "2"}});
  Rewarded run(settings, [&](trl_rollout* rollout) {
    EXPECT_EQ(trl_rollout_count(rollout), 4u);
    for (size_t i = 0; i < 2; ++i) {
      const Json first = row_of(rollout, i), second = row_of(rollout, i + 2);
      EXPECT_EQ(first["row"], 2 * (calls % 2) + static_cast<int>(i));
      EXPECT_EQ(first["prompt_ids"], second["prompt_ids"]);
      EXPECT_EQ(first["columns"], second["columns"]);
      EXPECT_EQ(first["completion_ids"].size(), second["completion_ids"].size());
      EXPECT_NE(first["completion_ids"], second["completion_ids"]);
    }
    ++calls;
    return reward_all(rollout);
  });
  ASSERT_EQ(run.train(), TRL_OK) << run.error.message();
  EXPECT_EQ(calls, 3);
  const Json records = run.last();
  EXPECT_EQ(records[0]["loss"], 0.6931);
  EXPECT_EQ(records[0]["objective/kl"], 0.0);
  EXPECT_FALSE(records[0].contains("completions/mean_length"));
  EXPECT_FALSE(records[0].contains("reward"));
}

TEST(Rollouts, APairWithoutRewardsScoresNothing) {
  NEED_MODEL();
  const host::Scratch scratch;
  Rewarded run(online_dpo(scratch / "out", {{"on_reward_error", "none"}}), [](trl_rollout*) { return -1; });
  EXPECT_EQ(run.train(), TRL_OK) << run.error.message();
  EXPECT_EQ(run.last()[0]["objective/scores"], 0.0);
}

// Two completions of a prompt may share it, with the same numbers.
TEST(Rollouts, PairsShareTheirPrompt) {
  NEED_MODEL();
  const host::Scratch scratch;
  const auto records = [&](const char* share) {
    Rewarded run(online_dpo(scratch / share, {{"share_prefix", share}}), reward_all);
    EXPECT_EQ(run.train(), TRL_OK) << run.error.message();
    return run.last();
  };
  const Json together = records("true"), apart = records("false");
  EXPECT_GT(together[0]["shared_tokens"], 0);
  for (const char* key : {"objective/kl", "objective/entropy", "logps/chosen", "grad_norm"})
    EXPECT_NEAR(together[2][key].get<double>(), apart[2][key].get<double>(),
                1e-3 * std::abs(apart[2][key].get<double>()) + 1e-4)
        << key;
}

TEST(Rollouts, PairsAreNotEvaluated) {
  NEED_MODEL();
  const host::Scratch scratch;
  const host::Dataset rows = host::rows(kPrompts);
  const auto refusal = [&](const Settings& more, trl_dataset* eval) {
    trl_trainer* made = nullptr;
    Error error;
    EXPECT_EQ(trl_trainer_create(nullptr, host::config(online_dpo(scratch / "out", more)).get(), rows.get(),
                                 eval, &made, error),
              TRL_E_INVALID_CONFIG);
    return error.message();
  };
  EXPECT_NE(refusal({{"eval_strategy", "epoch"}}, rows.get())
                .find("eval_strategy: epoch is refused with method online_dpo"),
            std::string::npos);
  EXPECT_NE(refusal({}, rows.get()).find("evaluation rows are refused with method online_dpo"),
            std::string::npos);
}

TEST(Rollouts, AFileOfAnotherRunIsRefused) {
  NEED_MODEL();
  const host::Scratch scratch;
  const std::string file = scratch / "rollouts.jsonl";
  const auto refusal = [&](const std::string& lines) {
    host::write_file(file, lines);
    const host::Dataset rows = host::rows(kPrompts);
    trl_trainer* made = nullptr;
    Error error;
    trl_status status = trl_trainer_create(
        nullptr, host::config(grpo(scratch / "out", {{"replay_rollouts", file}, {"max_steps", "1"}})).get(),
        rows.get(), nullptr, &made, error);
    const host::Trainer trainer(made);
    if (status == TRL_OK) status = trl_trainer_train(made, nullptr, nullptr, error);
    EXPECT_EQ(status, TRL_E_INVALID_CONFIG);
    EXPECT_EQ(error.key(), "replay_rollouts");
    return error.message();
  };
  const std::string line = R"({"completion_ids": [5, 6], "rewards": {"r": 1}})"
                           "\n";
  EXPECT_NE(refusal(line + line)
                .find("it has 2 lines (0 generations), and the run needs 4 (1 generation) up "
                      "to step 1: give a file of this run"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"rewards": {"r": 1}})").find("completion_ids: give a list of token ids"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"completion_ids": [5, -1], "rewards": {"r": 1}})").find("-1 is not a token id"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"completion_ids": [5], "rewards": {"r": "x"}})").find("\"x\" is not accepted"),
            std::string::npos);
  EXPECT_NE(
      refusal(R"({"completion_ids": [5], "logprobs": [1, 2], "rewards": {"r": 1}})").find("logprobs: give"),
      std::string::npos);
  EXPECT_NE(refusal(R"({"mode": "eval", "completion_ids": [5], "rewards": {"r": 1}})"
                    "\n" +
                    line + line + line + line)
                .find("mode is \"eval\", and the run is at \"train\""),
            std::string::npos);
}

}  // namespace
