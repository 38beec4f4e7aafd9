// Rewards that are asked by group, judge pairs, or have other prompts drawn; completions that end with a
// text.
#include <atomic>
#include <cmath>
#include <map>
#include <mutex>
#include <numeric>
#include <set>
#include <sstream>
#include <thread>

#include "engine/rewarded.h"

namespace {

using host::call;
using host::Error;
using host::Function;
using host::grpo;
using host::Json;
using host::online_dpo;
using host::points;
using host::reward_all;
using host::Rewarded;
using host::row_of;
using host::Settings;

#define NEED_MODEL() NEED_GOLDEN("models/qwen2/model.safetensors")

// Completions of different lengths: any of 200 ids ends one.
Settings of_any_length() {
  std::string ids = "[";
  for (int id = 0; id < 200; ++id) ids += std::to_string(id) + (id < 199 ? "," : "]");
  return {{"generation_kwargs", R"({"stop_token_ids": )" + ids + "}"}, {"max_completion_length", "12"}};
}

TEST(RewardsByGroup, AreAskedWhileOthersAreWrittenAndAreTheSame) {
  NEED_MODEL();
  const host::Scratch scratch;
  const auto weights = [&](const char* folder) {
    return host::read_safetensors(scratch / folder / "model.safetensors");
  };
  std::vector<std::thread> threads;
  const auto run = [&](const char* folder, const char* by_group, size_t rows) {
    Settings settings = host::with(of_any_length(), {{"reward_by_group", by_group}, {"max_steps", "2"}});
    Rewarded trained(grpo(scratch / folder, settings), [&, rows](trl_rollout* rollout) {
      EXPECT_EQ(trl_rollout_count(rollout), rows);
      threads.emplace_back([rollout] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        Error error;
        reward_all(rollout);
        for (size_t i = 0; i < trl_rollout_count(rollout); ++i)
          EXPECT_EQ(trl_rollout_set_value(rollout, i, "first", "1", error), TRL_OK);
        EXPECT_EQ(trl_rollout_finish(rollout, nullptr, error), TRL_OK);
      });
      return int32_t{TRL_LATER};
    });
    EXPECT_EQ(trained.train(), TRL_OK) << trained.error.message();
    EXPECT_EQ(trl_trainer_save(trained.trainer.get(), nullptr, nullptr, trained.error), TRL_OK);
    for (std::thread& thread : threads) thread.join();
    threads.clear();
  };
  run("all", "false", 4);
  run("groups", "true", 2);
  EXPECT_EQ(weights("groups"), weights("all"));
}

// As many points as the letters of the text; padding has none.
int32_t reward_text(trl_rollout* rollout) {
  Error error;
  for (size_t i = 0; i < trl_rollout_count(rollout); ++i) {
    const std::string text = row_of(rollout, i)["completion"];
    const int sum = std::accumulate(text.begin(), text.end(), 0, [](int all, char c) { return all + c; });
    EXPECT_EQ(trl_rollout_set_reward(rollout, i, sum % 7, error), TRL_OK);
  }
  return TRL_OK;
}

// The first of a pair is better if its text is not the shorter one.
int32_t judge_text(trl_rollout* rollout) {
  Error error;
  for (size_t i = 0; i < trl_rollout_count(rollout); ++i) {
    const Json row = row_of(rollout, i);
    const std::string first = row["completion"], second = row["other_completion"];
    EXPECT_EQ(trl_rollout_set_reward(rollout, i, first.size() >= second.size() ? 0.9 : 0.1, error), TRL_OK);
  }
  return TRL_OK;
}

// A pair is asked for as soon as both of its completions are there, with padding up to the longer one.
TEST(RewardsByGroup, OfPairsAreTheSame) {
  NEED_MODEL();
  const host::Scratch scratch;
  std::vector<std::thread> threads;
  const auto run = [&](const std::string& folder, const char* by_group, const Settings& more, size_t rows,
                       int32_t (*reward)(trl_rollout*)) {
    Settings settings = host::with(of_any_length(), {{"reward_by_group", by_group}, {"max_steps", "2"}});
    settings[1].first = "max_new_tokens";
    std::atomic<int> calls = 0;
    std::set<int64_t> generations;
    Rewarded trained(online_dpo(scratch / folder, host::with(settings, more)), [&](trl_rollout* rollout) {
      EXPECT_EQ(trl_rollout_count(rollout), rows);
      ++calls;
      if (rows == 2) {
        const Json first = row_of(rollout, 0), second = row_of(rollout, 1);
        EXPECT_EQ(first["row"], second["row"]);
        EXPECT_EQ(first["completion_ids"].size(), second["completion_ids"].size());
        EXPECT_NE(first["completion_ids"], second["completion_ids"]);
      }
      generations.insert(row_of(rollout, 0)["generation"].get<int64_t>());
      threads.emplace_back([rollout, reward] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        Error error;
        reward(rollout);
        EXPECT_EQ(trl_rollout_finish(rollout, nullptr, error), TRL_OK);
      });
      return int32_t{TRL_LATER};
    });
    EXPECT_EQ(trained.train(), TRL_OK) << trained.error.message();
    EXPECT_EQ(trl_trainer_save(trained.trainer.get(), nullptr, nullptr, trained.error), TRL_OK);
    for (std::thread& thread : threads) thread.join();
    threads.clear();
    EXPECT_EQ(calls, by_group == std::string("true") ? 2 * 4 : 2);
    EXPECT_EQ(generations, (std::set<int64_t>{1, 2}));
    return host::read_safetensors(scratch / folder / "model.safetensors");
  };
  EXPECT_EQ(run("groups", "true", {}, 2, reward_text), run("all", "false", {}, 8, reward_text));
  const Settings judged = {{"judge", "points"}};
  EXPECT_EQ(run("judged_groups", "true", judged, 1, judge_text),
            run("judged", "false", judged, 4, judge_text));
}

// Rows of equal prompts are written together; each still belongs to its own pair.
TEST(RewardsByGroup, EqualPromptsAreSeveralPairs) {
  NEED_MODEL();
  const host::Scratch scratch;
  constexpr const char* kEqual = R"({"prompt": "Name a planet:", "target": 1}
{"prompt": "Name a planet:", "target": 2}
{"prompt": "What is a tensor?", "target": 3}
)";
  std::vector<size_t> counts;
  std::map<int, int> targets;
  Rewarded run(
      online_dpo(scratch / "out",
                 {{"reward_by_group", "true"}, {"per_device_train_batch_size", "3"}, {"max_steps", "1"}}),
      [&](trl_rollout* rollout) {
        const size_t count = trl_rollout_count(rollout);
        counts.push_back(count);
        for (size_t i = 0; i < count / 2; ++i) {
          const Json first = row_of(rollout, i), second = row_of(rollout, i + count / 2);
          EXPECT_EQ(first["row"], second["row"]);
          ++targets[first["columns"]["target"].get<int>()];
        }
        return reward_all(rollout);
      },
      kEqual);
  ASSERT_EQ(run.train(), TRL_OK) << run.error.message();
  EXPECT_EQ(targets, (std::map<int, int>{{1, 1}, {2, 1}, {3, 1}}));
  EXPECT_GE(counts.size(), 2u);
}

TEST(RewardsByGroup, AFailureOfOneGroupEndsTheStep) {
  NEED_MODEL();
  const host::Scratch scratch;
  std::atomic<int> calls = 0;
  Rewarded run(grpo(scratch / "out", {{"reward_by_group", "true"}}),
               [&](trl_rollout* rollout) { return ++calls == 2 ? -7 : reward_all(rollout); });
  EXPECT_EQ(trl_trainer_step(run.trainer.get(), nullptr, run.error), TRL_E_CALLBACK);
  EXPECT_EQ(trl_trainer_step(run.trainer.get(), nullptr, run.error), TRL_OK) << run.error.message();
  EXPECT_EQ(calls, 4);
}

TEST(Judge, ChoosesOneOfEachPair) {
  NEED_MODEL();
  const host::Scratch scratch;
  std::atomic<int> pairs = 0;
  const auto judge = [&](trl_rollout* rollout) {
    Error error;
    for (size_t i = 0; i < trl_rollout_count(rollout); ++i) {
      const Json row = row_of(rollout, i);
      EXPECT_TRUE(row["other_completion"].is_string());
      const Json second = {{"completion_ids", row["other_completion_ids"]}};
      EXPECT_NE(row["completion_ids"], row["other_completion_ids"]);
      const double first = points(row) >= points(second) ? 0.9 : 0.1;
      EXPECT_EQ(trl_rollout_set_reward(rollout, i, first, error), TRL_OK);
      ++pairs;
    }
    return int32_t{TRL_OK};
  };
  const auto weights = [&](const char* folder) {
    return host::read_safetensors(scratch / folder / "model.safetensors");
  };
  const auto train = [&](Rewarded& run) {
    EXPECT_EQ(run.train(), TRL_OK) << run.error.message();
    EXPECT_EQ(trl_trainer_save(run.trainer.get(), nullptr, nullptr, run.error), TRL_OK);
  };
  Rewarded judged(online_dpo(scratch / "judged", {{"judge", "points"}}), judge);
  train(judged);
  EXPECT_EQ(pairs, 3 * 4);
  Rewarded rewarded(online_dpo(scratch / "rewarded"), reward_all);
  train(rewarded);
  EXPECT_EQ(weights("judged"), weights("rewarded"));  // the first of equal rewards is chosen, too
}

TEST(Judge, APairWithoutAWinnerTeachesNothing) {
  NEED_MODEL();
  const host::Scratch scratch;
  const auto answer = [](double probability) {
    return [probability](trl_rollout* rollout) {
      Error error;
      for (size_t i = 0; i < trl_rollout_count(rollout); ++i)
        EXPECT_EQ(trl_rollout_set_reward(rollout, i, probability, error), TRL_OK);
      return int32_t{TRL_OK};
    };
  };
  Rewarded undecided(online_dpo(scratch / "out", {{"judge", "points"}}), answer(0.5));
  ASSERT_EQ(undecided.train(), TRL_OK) << undecided.error.message();
  EXPECT_EQ(undecided.last()[0]["grad_norm"], 0.0);
  Rewarded wrong(online_dpo(scratch / "out", {{"judge", "points"}}), answer(2));
  EXPECT_EQ(wrong.train(), TRL_E_CALLBACK);
  EXPECT_TRUE(wrong.error.names("the judge points gave 2 for pair 0")) << wrong.error.message();
}

TEST(Judge, MayBeWrongLater) {
  NEED_MODEL();
  const host::Scratch scratch;
  std::thread later;
  Rewarded run(online_dpo(scratch / "out", {{"judge", "points"}}), [&](trl_rollout* rollout) {
    later = std::thread([rollout] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      Error error;
      for (size_t i = 0; i < trl_rollout_count(rollout); ++i)
        EXPECT_EQ(trl_rollout_set_reward(rollout, i, i == 1 ? -0.5 : 0.5, error), TRL_OK);
      EXPECT_EQ(trl_rollout_finish(rollout, nullptr, error), TRL_OK) << error.message();
    });
    return int32_t{TRL_LATER};
  });
  EXPECT_EQ(run.train(), TRL_E_CALLBACK);
  later.join();
  EXPECT_TRUE(run.error.names("the judge points gave -0.5 for pair 1")) << run.error.message();
}

TEST(Judge, TakesThePlaceOfRewards) {
  NEED_MODEL();
  const host::Scratch scratch;
  Rewarded unknown(online_dpo(scratch / "out", {{"judge", "someone"}}), reward_all);
  EXPECT_EQ(unknown.train(), TRL_E_INVALID_CONFIG);
  EXPECT_TRUE(unknown.error.names("judge: 'someone'")) << unknown.error.message();
  Rewarded two(
      online_dpo(scratch / "out", {{"judge", "points"}, {"reward_funcs", R"(["think_format_reward"])"}}),
      reward_all);
  EXPECT_EQ(two.train(), TRL_E_INVALID_CONFIG);
  EXPECT_TRUE(two.error.names("leave out the others")) << two.error.message();
}

// Prompts with an odd target have equal rewards.
int32_t reward_even_targets(trl_rollout* rollout) {
  Error error;
  for (size_t i = 0; i < trl_rollout_count(rollout); ++i) {
    const Json row = row_of(rollout, i);
    const bool equal = row["columns"]["target"].get<int>() % 2 == 1;
    const double own = equal ? 1 : static_cast<double>(i % 2);
    EXPECT_EQ(trl_rollout_set_reward(rollout, i, own, error), TRL_OK);
  }
  return TRL_OK;
}

TEST(Resampling, GivesGroupsWithoutSpreadOtherPrompts) {
  NEED_MODEL();
  const host::Scratch scratch;
  std::atomic<int> calls = 0;
  const Settings settings = {{"resample_zero_std", "true"}, {"record_rollouts", scratch / "rows.jsonl"}};
  Rewarded run(grpo(scratch / "out", settings), [&](trl_rollout* rollout) {
    ++calls;
    return reward_even_targets(rollout);
  });
  ASSERT_EQ(run.train(), TRL_OK) << run.error.message();
  const Json records = run.last();
  double drawn = 0;
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(records[i]["frac_reward_zero_std"], 0.0);
    drawn += records[i]["resampled_groups"].get<double>();
  }
  EXPECT_GT(drawn, 0);
  EXPECT_GT(calls, 3);
  std::set<int> targets;
  std::istringstream lines(host::read_file(scratch / "rows.jsonl"));
  for (std::string line; std::getline(lines, line);) targets.insert(host::parse(line)["row"].get<int>() % 2);
  EXPECT_EQ(targets, std::set<int>{1});  // rows 1 and 3 have targets 2 and 4
}

TEST(Resampling, GivesUpAfterTenDraws) {
  NEED_MODEL();
  const host::Scratch scratch;
  std::atomic<int> calls = 0;
  Rewarded run(grpo(scratch / "out", {{"resample_zero_std", "true"}, {"max_steps", "1"}}),
               [&](trl_rollout* rollout) {
                 ++calls;
                 Error error;
                 for (size_t i = 0; i < trl_rollout_count(rollout); ++i)
                   EXPECT_EQ(trl_rollout_set_reward(rollout, i, 1, error), TRL_OK);
                 EXPECT_EQ(trl_rollout_log(rollout, "call", calls, error), TRL_OK);
                 if (calls == 1) {
                   EXPECT_EQ(trl_rollout_log(rollout, "first", 8, error), TRL_OK);
                 }
                 return int32_t{TRL_OK};
               });
  ASSERT_EQ(run.train(), TRL_OK) << run.error.message();
  EXPECT_EQ(calls, 11);
  EXPECT_EQ(run.last()[0]["call"], 6.0);  // the mean over the draws
  EXPECT_EQ(run.last()[0]["first"], 8.0);
  EXPECT_EQ(run.last()[0]["frac_reward_zero_std"], 1.0);
  EXPECT_EQ(run.last()[0]["resampled_groups"], 20.0);
}

TEST(Resampling, IsRefusedIfTheHostWritesCompletions) {
  NEED_MODEL();
  const host::Scratch scratch;
  Rewarded run(grpo(scratch / "out", {{"resample_zero_std", "true"}}), reward_all);
  EXPECT_EQ(trl_trainer_set_rollout(run.trainer.get(), host::call, &run.reward, nullptr, run.error),
            TRL_E_INVALID_CONFIG);
  EXPECT_EQ(run.error.key(), "resample_zero_std");
  EXPECT_EQ(run.train(), TRL_OK) << run.error.message();
}

TEST(Resampling, IsTheSameAfterAResume) {
  NEED_MODEL();
  const host::Scratch scratch;
  const Settings own = {{"resample_zero_std", "true"},
                        {"max_steps", "4"},
                        {"num_iterations", "2"},
                        {"save_strategy", "steps"},
                        {"save_steps", "1"}};
  const auto weights = [&](const char* folder) {
    return host::read_safetensors(scratch / folder / "model.safetensors");
  };
  const auto finish = [](Rewarded& run) {
    EXPECT_EQ(run.train(), TRL_OK) << run.error.message();
    EXPECT_EQ(trl_trainer_save(run.trainer.get(), nullptr, nullptr, run.error), TRL_OK);
  };
  Rewarded whole(grpo(scratch / "whole", own), reward_even_targets);
  finish(whole);
  Rewarded part(grpo(scratch / "parts", own), reward_even_targets);
  for (int step = 0; step < 3; ++step)
    ASSERT_EQ(trl_trainer_step(part.trainer.get(), nullptr, part.error), TRL_OK) << part.error.message();
  part.trainer.reset();
  Rewarded rest(host::with(grpo(scratch / "parts", own), {{"resume_from_checkpoint", "true"}}),
                reward_even_targets);
  finish(rest);
  EXPECT_EQ(weights("parts"), weights("whole"));
}

// The file has the prompts that took the places of others, and the rewards with which they stayed.
TEST(Resampling, IsReplayedAsItWasRecorded) {
  NEED_MODEL();
  const host::Scratch scratch;
  const std::string file = scratch / "rollouts.jsonl";
  const auto weights = [&](const char* folder) {
    return host::read_safetensors(scratch / folder / "model.safetensors");
  };
  std::vector<Json> seen;
  const auto run = [&](const char* folder, const char* key, const std::string& path) {
    Rewarded trained(grpo(scratch / folder, {{"resample_zero_std", "true"}, {"max_steps", "4"}, {key, path}}),
                     [&](trl_rollout* rollout) {
                       for (size_t i = 0; i < trl_rollout_count(rollout); ++i)
                         seen.push_back(row_of(rollout, i)["columns"]["target"]);
                       return reward_even_targets(rollout);
                     });
    EXPECT_EQ(trained.train(), TRL_OK) << trained.error.message();
    EXPECT_EQ(trl_trainer_save(trained.trainer.get(), nullptr, nullptr, trained.error), TRL_OK);
    return trained.last();
  };
  const Json recorded = run("recorded", "record_rollouts", file);
  std::string unrewarded;
  std::istringstream lines(host::read_file(file));
  double drawn = 0;
  for (std::string line; std::getline(lines, line);) {
    Json row = host::parse(line);
    drawn += row.value("resampled", 0.0) / 2;  // completions of a prompt
    row.erase("rewards");
    unrewarded += row.dump() + "\n";
  }
  // A replay that is recorded tells of the prompts that were taken away, too.
  const std::string copy = scratch / "copy.jsonl";
  Rewarded again(grpo(scratch / "again", {{"resample_zero_std", "true"},
                                          {"max_steps", "4"},
                                          {"replay_rollouts", file},
                                          {"record_rollouts", copy}}),
                 reward_even_targets);
  EXPECT_EQ(again.train(), TRL_OK) << again.error.message();
  double copied = 0;
  std::istringstream copies(host::read_file(copy));
  for (std::string line; std::getline(copies, line);) copied += host::parse(line).value("resampled", 0.0) / 2;
  EXPECT_EQ(copied, drawn);
  seen.clear();
  const Json replayed = run("replayed", "replay_rollouts", file);
  EXPECT_TRUE(seen.empty());
  EXPECT_EQ(weights("replayed"), weights("recorded"));
  double logged = 0;
  for (size_t i = 0; i < 4; ++i) {
    for (const char* key : {"loss", "grad_norm", "reward", "frac_reward_zero_std", "resampled_groups"})
      EXPECT_EQ(replayed[i][key], recorded[i][key]) << i << key;
    logged += recorded[i]["resampled_groups"].get<double>();
  }
  EXPECT_GT(drawn, 0);
  EXPECT_EQ(drawn, logged);
  // A function is asked for the prompts of the file, once.
  host::write_file(file, unrewarded);
  run("rewarded", "replay_rollouts", file);
  EXPECT_EQ(seen.size(), 16u);
  for (const Json& target : seen) EXPECT_EQ(target.get<int>() % 2, 0);
  EXPECT_EQ(weights("rewarded"), weights("recorded"));
}

TEST(Resampling, AReplayNeedsTheRowsOfItsFile) {
  NEED_MODEL();
  const host::Scratch scratch;
  const std::string file = scratch / "rollouts.jsonl";
  const Settings once = {{"resample_zero_std", "true"}, {"max_steps", "1"}};
  Rewarded recorded(grpo(scratch / "recorded", host::with(once, {{"record_rollouts", file}})),
                    reward_even_targets);
  ASSERT_EQ(recorded.train(), TRL_OK) << recorded.error.message();
  std::string lines = host::read_file(file);
  const size_t row = lines.find("\"row\":");
  ASSERT_NE(row, std::string::npos);
  lines.replace(row, 7, "\"row\":9");
  host::write_file(file, lines);
  Rewarded run(grpo(scratch / "out", host::with(once, {{"replay_rollouts", file}})), reward_even_targets);
  EXPECT_EQ(run.train(), TRL_E_INVALID_CONFIG);
  EXPECT_TRUE(run.error.names("and the dataset has no prompt there")) << run.error.message();
}

// The stop text that ended a completion ends it in a replayed run, too; one may be a special token.
TEST(StopTexts, AreFoundAgainInAReplay) {
  NEED_MODEL();
  const host::Scratch scratch;
  std::string text;
  Rewarded once(grpo(scratch / "once", {{"max_steps", "1"}}), [&](trl_rollout* rollout) {
    text = row_of(rollout, 0)["completion"].get<std::string>();
    return reward_all(rollout);
  });
  ASSERT_EQ(once.train(), TRL_OK) << once.error.message();
  const Json of_text = {{"stop", {text.substr(text.size() / 3, 1)}}};
  const Json of_token = {{"stop", {"<|im_start|>"}},  // "&", then the token, then others
                         {"logit_bias", {{"5", 2000}, {"474", 1000}}},
                         {"no_repeat_ngram_size", 1}};
  for (const Json& kwargs : {of_text, of_token}) {
    const host::Scratch runs;
    const std::string file = runs / "rollouts.jsonl";
    const Settings own = {{"generation_kwargs", kwargs.dump()}, {"mask_truncated_completions", "true"}};
    const auto run = [&](const char* folder, const Settings& more) {
      Rewarded trained(grpo(runs / folder, host::with(own, more)), reward_all);
      EXPECT_EQ(trained.train(), TRL_OK) << trained.error.message();
      EXPECT_EQ(trl_trainer_save(trained.trainer.get(), nullptr, nullptr, trained.error), TRL_OK);
      return std::pair(trained.last()[0]["completions/clipped_ratio"].get<double>(),
                       host::read_safetensors(runs / folder / "model.safetensors"));
    };
    const auto first = run("recorded", {{"record_rollouts", file}});
    EXPECT_LT(first.first, 1) << kwargs;
    EXPECT_EQ(run("replayed", {{"replay_rollouts", file}}), first) << kwargs;
  }
}

// Completions that are recorded have log-probabilities, which nothing is compared with for that.
TEST(Records, ChangeNothingInTraining) {
  NEED_MODEL();
  const host::Scratch scratch;
  const auto weights = [&](const char* folder, const Settings& more) {
    const Settings own = {{"off_policy_mask_threshold", "1e-9"}, {"kv_cache_dtype", "int8"}};
    Rewarded run(grpo(scratch / folder, host::with(own, more)), reward_all);
    EXPECT_EQ(run.train(), TRL_OK) << run.error.message();
    EXPECT_EQ(trl_trainer_save(run.trainer.get(), nullptr, nullptr, run.error), TRL_OK);
    return host::read_safetensors(scratch / folder / "model.safetensors");
  };
  EXPECT_EQ(weights("recorded", {{"record_rollouts", scratch / "rollouts.jsonl"}}), weights("plain", {}));
}

TEST(RowFailures, EndTheStepOrCountAsNone) {
  NEED_MODEL();
  const host::Scratch scratch;
  const auto fails_one = [](trl_rollout* rollout) {
    Error error;
    for (size_t i = 0; i < trl_rollout_count(rollout); ++i) {
      if (i == 1)
        EXPECT_EQ(trl_rollout_set_value(rollout, i, "error", R"("no answer in it")", error), TRL_OK);
      else
        EXPECT_EQ(trl_rollout_set_reward(rollout, i, points(row_of(rollout, i)), error), TRL_OK);
    }
    return int32_t{TRL_OK};
  };
  Rewarded ends(grpo(scratch / "ends"), fails_one);
  EXPECT_EQ(ends.train(), TRL_E_CALLBACK);
  EXPECT_TRUE(ends.error.names("the reward points failed for completion 1 of 4, dataset row "))
      << ends.error.message();
  EXPECT_TRUE(ends.error.names(": no answer in it")) << ends.error.message();
  Rewarded goes_on(grpo(scratch / "goes_on", {{"on_reward_error", "none"}, {"max_steps", "1"}}), fails_one);
  EXPECT_EQ(goes_on.train(), TRL_OK) << goes_on.error.message();
}

TEST(StopTexts, EndACompletion) {
  NEED_MODEL();
  const host::Scratch scratch;
  std::vector<std::string> texts;
  const auto watch = [&](trl_rollout* rollout) {
    for (size_t i = 0; i < trl_rollout_count(rollout); ++i)
      texts.push_back(row_of(rollout, i)["completion"].get<std::string>());
    return reward_all(rollout);
  };
  const Settings once = {{"max_steps", "1"}, {"max_completion_length", "8"}};
  Rewarded whole(grpo(scratch / "whole", once), watch);
  ASSERT_EQ(whole.train(), TRL_OK) << whole.error.message();
  const std::vector<std::string> all = std::exchange(texts, {});
  const std::string stop = all[0].substr(all[0].size() / 3, 1);
  const Json kwargs = {{"stop", {stop}}};
  Rewarded run(grpo(scratch / "cut", host::with(once, {{"generation_kwargs", kwargs.dump()}})), watch);
  ASSERT_EQ(run.train(), TRL_OK) << run.error.message();
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].rfind(texts[i], 0), 0u) << texts[i];
    const size_t at = all[i].find(stop);
    EXPECT_EQ(texts[i].find(stop), at) << texts[i];
  }
  EXPECT_LT(texts[0].size(), all[0].size());
  EXPECT_LT(run.last()[0]["completions/clipped_ratio"], whole.last()[0]["completions/clipped_ratio"]);
}

TEST(StopTokens, EndACompletion) {
  NEED_MODEL();
  const host::Scratch scratch;
  std::vector<Json> ids;
  const auto watch = [&](trl_rollout* rollout) {
    ids.push_back(row_of(rollout, 0)["completion_ids"]);
    return reward_all(rollout);
  };
  const Settings once = {{"max_steps", "1"}, {"mask_truncated_completions", "true"}};
  Rewarded whole(grpo(scratch / "whole", once), watch);
  ASSERT_EQ(whole.train(), TRL_OK) << whole.error.message();
  ASSERT_GE(ids[0].size(), 3u);
  for (const char* key : {"stop_token_ids", "eos_token_id"}) {
    const Json kwargs = {{key, {ids[0][2]}}};
    Rewarded run(grpo(scratch / key, host::with(once, {{"generation_kwargs", kwargs.dump()}})), watch);
    ASSERT_EQ(run.train(), TRL_OK) << run.error.message();
    EXPECT_LE(ids.back().size(), 3u) << key;
    EXPECT_LT(run.last()[0]["completions/clipped_ratio"].get<double>(), 1) << key;
    EXPECT_GT(run.last()[0]["completions/max_terminated_length"].get<double>(), 0) << key;
  }
}

TEST(StopTokens, AnEntryWithAnIdOutsideTheVocabularyIsRefusedAtTheStart) {
  NEED_MODEL();
  const host::Scratch scratch;
  const auto rows = host::rows(host::kPrompts);
  const Settings own = grpo(scratch / "out", {{"generation_kwargs", "{logit_bias: {600: 1}}"}});
  trl_trainer* made = nullptr;
  Error error;
  EXPECT_EQ(trl_trainer_create(nullptr, host::config(own).get(), rows.get(), nullptr, &made, error),
            TRL_E_INVALID_CONFIG);
  EXPECT_EQ(std::string(error.key()), "generation_kwargs");
  EXPECT_TRUE(error.names("generation_kwargs: logit_bias: id 600 is not in the vocabulary of 512 ids"))
      << error.message();
}

TEST(FailedRewards, TheErrorNamesWhatToDoAndTheNewestCheckpoint) {
  NEED_MODEL();
  const host::Scratch scratch;
  int calls = 0;
  Rewarded run(grpo(scratch / "out", {{"save_strategy", "steps"}, {"save_steps", "1"}}),
               [&](trl_rollout* rollout) { return ++calls == 2 ? reward_all(rollout) : -42; });
  EXPECT_EQ(run.train(), TRL_E_CALLBACK);
  EXPECT_TRUE(run.error.names("on_reward_error: none counts it as none instead")) << run.error.message();
  EXPECT_TRUE(run.error.names(
      "the run can resume from step 0 of 3, once that is saved; by itself it had saved no checkpoint"))
      << run.error.message();
  EXPECT_EQ(run.train(), TRL_E_CALLBACK);
  EXPECT_EQ(trl_error_callback_code(run.error.get()), -42);
  EXPECT_TRUE(run.error.names("the run can resume from step 1 of 3; it is saved in " +
                              (scratch / "out/checkpoint-1").string()))
      << run.error.message();
}

// No step is left then, only the evaluation.
TEST(FailedRewards, TheErrorOfTheLastEvaluationNamesTheLastStep) {
  NEED_MODEL();
  const host::Scratch scratch;
  bool fails = true;
  Rewarded run(
      grpo(scratch / "out", {{"max_steps", "2"},
                             {"eval_strategy", "steps"},
                             {"eval_steps", "2"},
                             {"per_device_eval_batch_size", "4"}}),
      [&](trl_rollout* rollout) {
        return fails && row_of(rollout, 0)["mode"] == "eval" ? -42 : reward_all(rollout);
      },
      host::kPrompts, host::kPrompts);
  EXPECT_EQ(run.train(), TRL_E_CALLBACK);
  EXPECT_TRUE(run.error.names("the run can resume from step 2 of 2, once that is saved; "))
      << run.error.message();
  fails = false;
  EXPECT_EQ(run.train(), TRL_OK) << run.error.message();
}

TEST(FailedRewards, AnotherNumberOfWeightsIsRefusedBeforeTheRunBegins) {
  NEED_MODEL();
  const host::Scratch scratch;
  Rewarded run(grpo(scratch / "out", {{"reward_weights", "[1, 2]"}}), reward_all);
  int begun = 0;
  const auto count = [](void* data, int32_t event, const trl_metrics*) {
    *static_cast<int*>(data) += event == TRL_ON_TRAIN_BEGIN ? 1 : 0;
    return int32_t{0};
  };
  EXPECT_EQ(trl_trainer_train(run.trainer.get(), count, &begun, run.error), TRL_E_INVALID_CONFIG);
  EXPECT_EQ(run.error.key(), "reward_weights");
  EXPECT_EQ(begun, 0);
  Function second = reward_all;
  ASSERT_EQ(trl_trainer_add_reward(run.trainer.get(), "more", call, &second, nullptr, run.error), TRL_OK)
      << run.error.message();
  EXPECT_EQ(trl_trainer_train(run.trainer.get(), count, &begun, run.error), TRL_OK) << run.error.message();
  EXPECT_EQ(begun, 1);
}

}  // namespace
