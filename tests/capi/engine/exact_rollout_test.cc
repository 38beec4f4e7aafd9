// generation_exact in training: what generation recorded takes the place of forwards, and changes nothing.
#include "engine/rewarded.h"

namespace {

using host::grpo;
using host::Json;
using host::reward_all;
using host::Rewarded;
using host::Settings;

#define NEED_MODEL() NEED_GOLDEN("models/qwen2/model.safetensors")

int32_t reward_none(trl_rollout* rollout) {
  host::Error error;
  for (size_t i = 0; i < trl_rollout_count(rollout); ++i)
    EXPECT_EQ(trl_rollout_set_reward(rollout, i, 1, error), TRL_OK);
  return TRL_OK;
}

// The first two are equal, and of one prompt, so that they teach nothing.
int32_t reward_some(trl_rollout* rollout) {
  host::Error error;
  for (size_t i = 0; i < trl_rollout_count(rollout); ++i)
    EXPECT_EQ(trl_rollout_set_reward(rollout, i, i < 2 ? 1 : host::points(host::row_of(rollout, i)), error),
              TRL_OK);
  return TRL_OK;
}

Settings exact(const std::string& folder, const Settings& more) {
  return grpo(
      folder,
      host::with({{"generation_exact", "true"}, {"profile_parts", "true"}, {"logging_steps", "1"}}, more));
}

auto trained(const std::string& folder, const Settings& more, const host::Function& reward, Json& steps) {
  Rewarded run(exact(folder, more), reward);
  EXPECT_EQ(run.train(), TRL_OK) << run.error.message();
  EXPECT_EQ(trl_trainer_save(run.trainer.get(), nullptr, nullptr, run.error), TRL_OK);
  steps = run.last();
  return host::read_safetensors(folder + "/model.safetensors");
}

// A file's log-probabilities are never taken, so that the replayed run computes them.
TEST(ExactRollout, OldLogProbabilitiesAreThoseOfGeneration) {
  NEED_MODEL();
  const host::Scratch scratch;
  const Settings twice = {{"method", "grpo"}, {"num_iterations", "2"}, {"temperature", "0.7"}};
  const Settings wide_head = host::with(twice, {{"bf16", "true"}, {"cast_lm_head_to_fp32", "true"}});
  for (const auto& [name, own] :
       std::map<std::string, Settings>{{"grpo", twice},
                                       {"autocast", wide_head},
                                       {"bfloat16", host::with(wide_head, {{"dtype", "bfloat16"}})},
                                       {"rloo", {{"method", "rloo"}}}}) {
    const std::string file = scratch / (name + ".jsonl");
    Json steps, replayed;
    const auto weights =
        trained(scratch / name, host::with(own, {{"record_rollouts", file}}), reward_all, steps);
    EXPECT_EQ(weights, trained(scratch / (name + "-again"), host::with(own, {{"replay_rollouts", file}}),
                               reward_all, replayed));
    EXPECT_EQ(steps[0]["profile/old"], 0.0) << name;
    EXPECT_GT(replayed[0]["profile/old"], 0.0) << name;
  }
}

TEST(ExactRollout, RowsWithoutAnythingToTeachTakeTheirValuesFromGeneration) {
  NEED_MODEL();
  const host::Scratch scratch;
  for (const char* const method : {"grpo", "rloo"}) {
    Json steps, all;
    const Settings own = {{"method", method}, {"beta", "0"}};
    const auto weights = trained(scratch / "skips", own, reward_some, steps);
    const auto others =
        trained(scratch / "computes", host::with(own, {{"skip_silent_rows", "false"}}), reward_some, all);
    ASSERT_EQ(weights.size(), others.size());
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_GT(steps[i]["silent_rows"], 0.0) << method << steps[i];
      for (const char* name : {"loss", "entropy", "grad_norm", "completions/mean_length"})
        EXPECT_NEAR(steps[i][name], all[i][name], 1e-5 + 1e-5 * std::abs(all[i][name].get<double>()))
            << method << ' ' << name;
    }
  }
}

TEST(ExactRollout, AStepWithoutAnythingToTeachHasNoForward) {
  NEED_MODEL();
  const host::Scratch scratch;
  Json steps;
  trained(scratch / "out", {{"method", "rloo"}, {"beta", "0"}}, reward_none, steps);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(steps[i]["silent_rows"], 1.0);
    EXPECT_EQ(steps[i]["profile/gemm"], 0.0);
    EXPECT_GT(steps[i]["entropy"], 1.0);
    EXPECT_EQ(steps[i]["loss"], 0.0);
  }
}

// The second update on a generation has other weights, so that its rows go through the model.
TEST(ExactRollout, LaterUpdatesComputeTheirOwn) {
  NEED_MODEL();
  const host::Scratch scratch;
  Json steps, all;
  const Settings own = {{"num_iterations", "2"}, {"max_steps", "4"}};
  trained(scratch / "skips", own, reward_some, steps);
  trained(scratch / "computes", host::with(own, {{"skip_silent_rows", "false"}}), reward_some, all);
  for (size_t i = 0; i < 4; ++i)
    EXPECT_NEAR(steps[i]["entropy"], all[i]["entropy"], 1e-5 * std::abs(all[i]["entropy"].get<double>()))
        << i;
  EXPECT_NE(steps[0]["entropy"], steps[1]["entropy"]);
}

}  // namespace
