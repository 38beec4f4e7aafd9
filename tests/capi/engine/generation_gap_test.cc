// What copies of weights for generation cost a run: the seconds of making them anew, and the gap between the
// log-probabilities of generation and those of training.
#include <cstdlib>

#include "engine/rewarded.h"

namespace generation_gap_test {
namespace {

using host::grpo;
using host::Json;
using host::reward_all;
using host::Rewarded;
using host::Settings;

#define NEED_MODEL() NEED_GOLDEN("models/qwen2/model.safetensors")

constexpr const char *kMean = "sampling/sampling_logp_difference/mean",
                     *kMost = "sampling/sampling_logp_difference/max", *kSeconds = "generation_dtype_runtime";

// The records of the steps.
Json trained(const Settings& settings) {
  Rewarded run(settings, reward_all);
  EXPECT_EQ(run.train(), TRL_OK) << run.error.message();
  Json records = run.last();
  records.erase(records.size() - 1);
  return records;
}

Settings ppo(const std::string& output_dir) {
  return host::with(host::tiny(output_dir), {{"method", "ppo"},
                                             {"response_length", "5"},
                                             {"max_steps", "3"},
                                             {"learning_rate", "0.002"},
                                             {"save_strategy", "no"}});
}

TEST(GenerationGap, IsToldOfWeightsThatAreRounded) {
  NEED_MODEL();
  const host::Scratch scratch;
  const std::map<std::string, Settings> runs = {
      {"grpo", grpo(scratch / "grpo")},
      {"two updates", grpo(scratch / "two", {{"num_iterations", "2"}})},
      {"rloo", grpo(scratch / "rloo", {{"method", "rloo"}})},
      {"online dpo", host::online_dpo(scratch / "online", {{"temperature", "1"}})},
      {"ppo", ppo(scratch / "ppo")}};
  for (const auto& [name, settings] : runs) {
    SCOPED_TRACE(name);
    const Json records = trained(host::with(settings, {{"generation_dtype", "int8"}}));
    ASSERT_GE(records.size(), 3u);
    EXPECT_GT(records[0].at(kMean), 1e-5) << records[0];
    EXPECT_LT(records[0].at(kMean), 0.5) << records[0];
    EXPECT_GE(records[0].at(kMost), records[0].at(kMean));
  }
}

// Generation saw prompts whole that training shortens: by their beginning, or by a token that is padding.
TEST(GenerationGap, IsNotToldOfOtherPrompts) {
  NEED_MODEL();
  const host::Scratch scratch;
  const std::filesystem::path padded = scratch / "padded";  // its padding is in three of the four prompts
  host::copy_model("models/qwen2", padded);
  Json tokenizer = host::parse(host::read_file(padded / "tokenizer_config.json"));
  tokenizer["pad_token"] = ":";
  host::write_file(padded / "tokenizer_config.json", tokenizer.dump());
  const Settings runs[] = {host::online_dpo(scratch / "online", {{"temperature", "1"}, {"max_length", "7"}}),
                           host::with(ppo(scratch / "ppo"), {{"model_name_or_path", padded}})};
  for (const Settings& settings : runs) {
    const Json records = trained(host::with(settings, {{"generation_dtype", "int8"}}));
    ASSERT_GE(records.size(), 3u);
    for (const Json& record : records) EXPECT_FALSE(record.contains(kMean)) << record;
  }
}

// Either the old log-probabilities of a run with several updates have it, or the loss of one with a single
// update.
TEST(GenerationGap, IsTheSameBeforeAndInTheFirstUpdate) {
  NEED_MODEL();
  const host::Scratch scratch;
  const Settings rounds = {{"kv_cache_dtype", "int8"}, {"max_steps", "1"}};
  const Json before = trained(grpo(scratch / "before", host::with(rounds, {{"num_iterations", "2"}}))),
             in_loss = trained(grpo(scratch / "in_loss", rounds));
  for (const char* name : {kMean, kMost}) {
    EXPECT_GT(before[0].at(name), 1e-5) << name;
    EXPECT_NEAR(before[0].at(name), in_loss[0].at(name).get<double>(), 1e-5) << name;
  }
  EXPECT_FALSE(before[0].contains(kSeconds));
}

TEST(GenerationGap, IsRoundingAloneWhereNothingIsRounded) {
  NEED_MODEL();
  const host::Scratch scratch;
  for (const char* method : {"grpo", "rloo"}) {
    const std::string file = scratch / (std::string(method) + ".jsonl");
    const Json records = trained(grpo(scratch / method, {{"method", method}, {"record_rollouts", file}}));
    for (const Json& record : records) EXPECT_LT(record.at(kMost), 1e-4) << record;
  }
}

// The metrics of the gap, of evaluations too, by record.
Json gaps_in(const Json& records) {
  Json all = Json::array();
  for (const Json& record : records) {
    Json own = Json::object();
    for (const auto& [name, value] : record.items())
      if (name.find("sampling/") != std::string::npos) own[name] = value;
    all.push_back(own);
  }
  return all;
}

// Trains with one of both keys for files of completions. writes: gives the completions, or null.
Json gaps_of(const Settings& settings, const char* key, const std::string& file,
             host::Function* writes = nullptr) {
  const bool evaluates =
      std::ranges::find(settings, "eval_steps", [](const auto& own) { return own.first; }) != settings.end();
  Rewarded run(host::with(settings, {{key, file}, {"output_dir", file + "." + key}}), reward_all,
               host::kPrompts, evaluates ? host::kPrompts : nullptr);
  if (writes != nullptr) {
    EXPECT_EQ(trl_trainer_set_rollout(run.trainer.get(), host::call, writes, nullptr, run.error), TRL_OK)
        << run.error.message();
  }
  EXPECT_EQ(run.train(), TRL_OK) << run.error.message();
  return gaps_in(run.last());
}

TEST(GenerationGap, IsReplayedAsItWasRecorded) {
  NEED_MODEL();
  const host::Scratch scratch;
  const Settings evaluates = {
      {"eval_strategy", "steps"}, {"eval_steps", "1"}, {"per_device_eval_batch_size", "4"}};
  const std::map<std::string, Settings> runs = {
      {"grpo", grpo(scratch / "out", evaluates)},
      {"two_updates", grpo(scratch / "out", host::with(evaluates, {{"num_iterations", "2"}}))},
      {"rloo", grpo(scratch / "out", host::with(evaluates, {{"method", "rloo"}}))},
      {"online_dpo", host::online_dpo(scratch / "out", {{"temperature", "1"}})},
      {"ppo", ppo(scratch / "out")}};
  for (const auto& [name, settings] : runs) {
    SCOPED_TRACE(name);
    const std::string file = scratch / (name + ".jsonl");
    const Json recorded =
        gaps_of(host::with(settings, {{"generation_dtype", "int8"}}), "record_rollouts", file);
    EXPECT_GT(recorded[0].at(kMean), 1e-5);
    EXPECT_EQ(gaps_of(settings, "replay_rollouts", file), recorded);
  }
}

// The loss has the temperature of training.
TEST(GenerationGap, IsNotToldOfAnEvaluationAtAnotherTemperature) {
  NEED_MODEL();
  const host::Scratch scratch;
  constexpr const char* kRatio = "eval_sampling/importance_sampling_ratio/mean";
  const Settings evaluates = {
      {"eval_strategy", "steps"}, {"eval_steps", "1"}, {"per_device_eval_batch_size", "4"}};
  const auto evaluated = [&](const char* folder, const Settings& more) {
    Rewarded run(grpo(scratch / folder, host::with(evaluates, more)), reward_all, host::kPrompts,
                 host::kPrompts);
    EXPECT_EQ(run.train(), TRL_OK) << run.error.message();
    for (const Json& record : run.last())
      if (record.contains("eval_loss")) return record;
    ADD_FAILURE() << "no evaluation";
    return Json();
  };
  const Json same = evaluated("same", {{"use_vllm", "true"}, {"eval_top_p", "0.9"}}),
             other = evaluated("other", {{"use_vllm", "true"}, {"eval_temperature", "0.3"}}),
             plain = evaluated("plain", {{"eval_temperature", "0.3"}});
  EXPECT_NEAR(same.at(kRatio), 1, 1e-3);
  for (const auto& [name, value] : other.items()) EXPECT_EQ(name.find("sampling/"), name.npos) << name;
  EXPECT_NEAR(other.at("eval_loss"), plain.at("eval_loss").get<double>(), 1e-6);
}

// Log-probabilities of the host are compared if they are recorded, and again when they are replayed.
TEST(GenerationGap, IsToldOfWhatAHostStates) {
  NEED_MODEL();
  const host::Scratch scratch;
  host::Function writes = [](trl_rollout* rollout) {
    host::Error error;
    for (size_t row = 0; row < trl_rollout_count(rollout); ++row) {
      const int32_t ids[] = {10, 11 + static_cast<int32_t>(row)};
      const float log_probs[] = {-1, -2};
      EXPECT_EQ(trl_rollout_set_completion(rollout, row, ids, 2, log_probs, nullptr, nullptr, error), TRL_OK)
          << error.message();
    }
    return int32_t{TRL_OK};
  };
  const std::string file = scratch / "rollouts.jsonl";
  const Settings settings = grpo(scratch / "out");
  const Json recorded = gaps_of(settings, "record_rollouts", file, &writes);
  EXPECT_GT(recorded[0].at(kMean), 0.1);
  EXPECT_EQ(gaps_of(settings, "replay_rollouts", file), recorded);
  const Json unasked = gaps_of(settings, "run_name", file, &writes);
  for (const Json& record : unasked) EXPECT_TRUE(record.empty()) << record;
}

TEST(GenerationGap, NoHostStatesALogProbabilityAboveZero) {
  NEED_MODEL();
  const host::Scratch scratch;
  host::Function writes = [](trl_rollout* rollout) {
    host::Error error;
    const int32_t ids[] = {10, 11};
    const float above[] = {-1, 3}, rounded[] = {-1, 5e-5f};
    EXPECT_EQ(trl_rollout_set_completion(rollout, 2, ids, 2, above, nullptr, nullptr, error),
              TRL_E_INVALID_ARGUMENT);
    EXPECT_TRUE(error.names("index 2: log_probs[1]: 3 is not accepted: give a number up to 0"))
        << error.message();
    for (size_t row = 0; row < trl_rollout_count(rollout); ++row) {
      EXPECT_EQ(trl_rollout_set_completion(rollout, row, ids, 2, rounded, nullptr, nullptr, error), TRL_OK)
          << error.message();
    }
    return int32_t{TRL_OK};
  };
  gaps_of(grpo(scratch / "out", {{"max_steps", "1"}}), "record_rollouts", scratch / "rollouts.jsonl",
          &writes);
}

TEST(GenerationGap, IsNoneInAReplayThatIsExact) {
  NEED_MODEL();
  const host::Scratch scratch;
  const Settings exact = grpo(scratch / "out", {{"generation_exact", "true"}});
  const std::string file = scratch / "rollouts.jsonl";
  for (const char* key : {"record_rollouts", "replay_rollouts"})
    for (const Json& record : gaps_of(exact, key, file)) EXPECT_TRUE(record.empty()) << record;
}

// The replayed run computes its own log-probabilities and compares them with the file's, which are those of
// generation.
TEST(GenerationGap, IsZeroInEachStepIfGenerationIsExact) {
  NEED_MODEL();
  const host::Scratch scratch;
  const char* const asked = std::getenv("TRL_TEST_EXACT_STEPS");
  const std::string steps = asked != nullptr ? asked : "8";
  const std::map<std::string, Settings> runs = {{"full", {}},
                                                {"lora", {{"use_peft", "true"}, {"lora_r", "4"}}}};
  for (const auto& [name, own] : runs) {
    SCOPED_TRACE(name);
    const std::string file = scratch / (name + ".jsonl");
    const auto run = [&](const char* key) {
      const Settings exact = {{"generation_exact", "true"},
                              {"use_vllm", "true"},
                              {"learning_rate", "0.001"},
                              {"max_steps", steps},
                              {key, file}};
      return trained(grpo(scratch / (name + key), host::with(own, exact)));
    };
    run("record_rollouts");
    const Json records = run("replay_rollouts");
    ASSERT_EQ(records.size(), std::stoul(steps));
    int learned = 0;
    for (const Json& record : records) {
      EXPECT_EQ(record.at(kMost), 0.0) << record;
      learned += record.at("grad_norm") > 0 ? 1 : 0;
    }
    EXPECT_GT(learned, 1);
  }
}

// Records have only TRL's names unless more was asked for, and nothing is compared that is the same.
TEST(GenerationGap, IsNotToldWithoutBeingAskedFor) {
  NEED_MODEL();
  const host::Scratch scratch;
  for (const auto& [folder, more] : std::map<std::string, Settings>{
           {"plain", {}}, {"twice", {{"num_iterations", "2"}}}, {"exact", {{"generation_exact", "true"}}}}) {
    for (const Json& record : trained(grpo(scratch / folder, more))) {
      EXPECT_FALSE(record.contains(kMean)) << folder << record;
      EXPECT_FALSE(record.contains(kSeconds)) << folder << record;
    }
  }
}

// The copies are those of the first weights until these have changed, unless they went back meanwhile.
TEST(GenerationCopies, TellTheSecondsOfMakingThemAnew) {
  NEED_MODEL();
  const host::Scratch scratch;
  const Settings int8 = {{"generation_dtype", "int8"}};
  const Json kept = trained(grpo(scratch / "kept", int8)),
             slept = trained(grpo(scratch / "slept", host::with(int8, {{"vllm_enable_sleep_mode", "true"}})));
  for (size_t step = 1; step < 3; ++step)
    for (const Json& records : {kept, slept}) EXPECT_GT(records[step].at(kSeconds), 0.0) << records[step];
  for (const Json& records : {kept, slept}) {
    EXPECT_GE(records[0].at(kSeconds), 0.0);
    EXPECT_LT(records[2].at(kSeconds), records[2].at("step_time"));
  }
  const Json half = trained(grpo(scratch / "half", host::with(int8, {{"num_iterations", "2"}})));
  EXPECT_FALSE(half[1].contains(kSeconds)) << half[1];  // it is told of a generation
}

}  // namespace
}  // namespace generation_gap_test
