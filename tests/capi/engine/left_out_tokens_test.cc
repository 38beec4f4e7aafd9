// Tokens that the loss of GRPO leaves out, and what does not count them either.
#include "engine/rewarded.h"

namespace {

using host::grpo;
using host::Json;
using host::Rewarded;
using host::Settings;

// As in TRL, the control follows the entropy of the tokens that the bonus acts on.
TEST(LeftOutTokens, AreNotThoseOfTheEntropyControl) {
  NEED_GOLDEN("models/qwen2/model.safetensors");
  const host::Scratch scratch;
  const auto entropy = [&](const char* share) {
    const Settings own = {
        {"use_adaptive_entropy", "true"}, {"entropy_target", "100"}, {"top_entropy_quantile", share},
        {"save_strategy", "steps"},       {"save_steps", "1"},       {"max_steps", "1"}};
    Rewarded run(grpo(scratch / share, own), host::reward_all);
    EXPECT_EQ(run.train(), TRL_OK) << run.error.message();
    const auto file = scratch / share / "checkpoint-1/entropy_ctrl_state.json";
    return host::parse(host::read_file(file))["last_world_entropy"].get<double>();
  };
  EXPECT_GT(entropy("0.2"), entropy("1") + 1e-3);
}

// As in TRL, whose attention mask hides cut completions, the routers' loss does not count them.
TEST(LeftOutTokens, OfCutCompletionsAreNotComputed) {
  NEED_GOLDEN("models/qwen3_moe/model.safetensors");
  const host::Scratch scratch;
  const auto record = [&](const std::string& folder, int32_t cut) {
    const Settings own = {{"model_name_or_path", host::golden("models/qwen3_moe")},
                          {"mask_truncated_completions", "true"},
                          {"router_aux_loss_coef", "0.1"},
                          {"max_steps", "1"}};
    Rewarded run(grpo(scratch / folder, own), [](trl_rollout* rollout) {
      for (size_t i = 0; i < trl_rollout_count(rollout); ++i)
        trl_rollout_set_reward(rollout, i, static_cast<double>(i), nullptr);
      return int32_t{TRL_OK};
    });
    host::Function write = [cut](trl_rollout* rollout) {
      const int32_t whole[] = {7, 8, 475}, half[] = {cut, 9, cut, 10, cut};
      for (size_t i = 0; i < trl_rollout_count(rollout); ++i)
        trl_rollout_set_completion(rollout, i, i % 2 == 0 ? whole : half, i % 2 == 0 ? 3 : 5, nullptr,
                                   nullptr, nullptr, nullptr);
      return int32_t{TRL_OK};
    };
    EXPECT_EQ(trl_trainer_set_rollout(run.trainer.get(), host::call, &write, nullptr, run.error), TRL_OK);
    EXPECT_EQ(run.train(), TRL_OK) << run.error.message();
    return run.last()[0];
  };
  const Json one = record("one", 11), other = record("other", 300);
  EXPECT_EQ(one["completions/clipped_ratio"], 0.5);
  for (const char* name : {"aux_loss", "grad_norm"}) EXPECT_EQ(one[name], other[name]) << name;
}

}  // namespace
