// Completions without tokens, and generations of which no token counts in a loss: the numbers of TRL where it
// has any, and otherwise a clear error.
#include <cmath>

#include "engine/rewarded.h"

namespace {

using host::Error;
using host::Function;
using host::grpo;
using host::Json;
using host::online_dpo;
using host::Rewarded;
using host::Settings;

#define NEED_MODEL() NEED_GOLDEN("models/qwen2/model.safetensors")

using Rows = std::vector<std::vector<int32_t>>;

int32_t reward_by_place(trl_rollout* rollout) {
  Error error;
  for (size_t i = 0; i < trl_rollout_count(rollout); ++i)
    EXPECT_EQ(trl_rollout_set_reward(rollout, i, static_cast<double>(i), error), TRL_OK) << error.message();
  return TRL_OK;
}

// A step on these completions.
class Step {
 public:
  Step(const Settings& settings, const Rows& completions)
      : run_(host::with(settings, {{"max_steps", "1"}}), reward_by_place) {
    write_ = [completions](trl_rollout* rollout) {
      Error error;
      EXPECT_EQ(trl_rollout_count(rollout), completions.size());
      const int32_t id = 5;
      EXPECT_EQ(trl_rollout_set_completion(rollout, 0, &id, SIZE_MAX, nullptr, nullptr, nullptr, error),
                TRL_E_INVALID_ARGUMENT);
      EXPECT_TRUE(error.names("ids: a count of " + std::to_string(SIZE_MAX))) << error.message();
      for (size_t i = 0; i < completions.size(); ++i) {
        const std::vector<int32_t>& ids = completions[i];
        const std::vector<float> log_probs(ids.size(), -5.0F);
        EXPECT_EQ(trl_rollout_set_completion(rollout, i, ids.data(), ids.size(), log_probs.data(), nullptr,
                                             nullptr, error),
                  TRL_OK)
            << error.message();
      }
      return int32_t{TRL_OK};
    };
    EXPECT_EQ(trl_trainer_set_rollout(run_.trainer.get(), host::call, &write_, nullptr, run_.error), TRL_OK);
  }
  trl_status train() { return run_.train(); }
  const Error& error() const { return run_.error; }
  // Its record, in which all but the extremes of no clipped ratios are numbers.
  Json record() {
    EXPECT_EQ(train(), TRL_OK) << run_.error.message();
    Json record = run_.last()[0];
    for (const auto& [name, value] : record.items()) {
      const bool extreme = name == "clip_ratio/low_min" || name == "clip_ratio/high_max";
      EXPECT_TRUE(value.is_number() || (extreme && value.is_null())) << name << ": " << value;
    }
    return record;
  }

 private:
  Function write_;
  Rewarded run_;
};

void expect_zeros(const Json& record, const std::vector<const char*>& names) {
  for (const char* const name : names) EXPECT_EQ(record[name], 0.0) << name;
}

TEST(EmptyCompletions, TeachNothingIfThereAreNoOthers) {
  NEED_MODEL();
  const host::Scratch scratch;
  for (const char* const method : {"grpo", "rloo"}) {
    const Json record = Step(grpo(scratch / method, {{"method", method}}), Rows(4)).record();
    expect_zeros(record,
                 {"loss", "grad_norm", "entropy", "completions/mean_length", "clip_ratio/region_mean"});
    EXPECT_EQ(record["reward"], 1.5) << method;
  }
}

TEST(EmptyCompletions, BesideOthersInGroups) {
  NEED_MODEL();
  const host::Scratch scratch;
  const Json record = Step(grpo(scratch / "out"), {{10, 11}, {}, {12, 13, 14}, {15}}).record();
  EXPECT_GT(record["grad_norm"], 0.0);
  EXPECT_EQ(record["completions/min_length"], 0.0);
  EXPECT_EQ(record["completions/mean_length"], 1.5);
}

// The first completion of each prompt comes before the second ones, which are better here.
TEST(EmptyCompletions, InPairs) {
  NEED_MODEL();
  const host::Scratch scratch;
  const Settings two = {{"per_device_train_batch_size", "2"}};
  const Json one = Step(online_dpo(scratch / "one", two), {{}, {10, 11}, {12, 13, 14}, {15}}).record();
  EXPECT_LT(one["logps/rejected"], 0.0);
  const Json both = Step(online_dpo(scratch / "both", two), {{}, {}, {12, 13, 14}, {15}}).record();
  EXPECT_EQ(both["logps/rejected"], 0.0);
  EXPECT_LT(both["logps/chosen"], 0.0);
  EXPECT_EQ(both["objective/scores_margin"], 2.0);
  EXPECT_EQ(both["loss"], 0.6931);
  EXPECT_GT(both["grad_norm"], 0.0);
}

TEST(EmptyCompletions, OfPpo) {
  NEED_MODEL();
  const host::Scratch scratch;
  const auto ppo = [&](const char* folder) {
    return host::with(host::tiny(scratch / folder),
                      {{"method", "ppo"}, {"response_length", "5"}, {"save_strategy", "no"}});
  };
  const Json record = Step(ppo("one"), {{10, 11}, {}, {12, 13, 14}, {15}}).record();
  EXPECT_EQ(record["objective/scores"], 1.5);
  EXPECT_GT(record["grad_norm"], 0.0);
  Step none(ppo("none"), Rows(4));
  EXPECT_EQ(none.train(), TRL_E_INVALID_ARGUMENT);
  EXPECT_TRUE(none.error().names("all completions of a batch are empty")) << none.error().message();
}

TEST(CutCompletions, TeachNothingIfAllAreMasked) {
  NEED_MODEL();
  const host::Scratch scratch;
  for (const std::string mode : {"token_truncate", "token_mask", "sequence_truncate", "sequence_mask"}) {
    SCOPED_TRACE(mode);
    const Settings masked = {{"mask_truncated_completions", "true"},
                             {"use_vllm", "true"},
                             {"vllm_importance_sampling_mode", mode},
                             {"beta", "0.1"}};
    const Json record = Step(grpo(scratch / mode, masked), {{10, 11}, {10, 12}, {12, 13, 14}, {12}}).record();
    expect_zeros(record, {"loss", "grad_norm", "entropy", "kl", "clip_ratio/region_mean",
                          "sampling/sampling_logp_difference/mean", "sampling/sampling_logp_difference/max"});
    EXPECT_EQ(record["completions/clipped_ratio"], 1.0);
    for (const char* const extent : {"min", "mean", "max"})
      EXPECT_EQ(record[std::string("sampling/importance_sampling_ratio/") + extent],
                mode.starts_with("sequence") ? 1.0 : 0.0)
          << extent;
  }
}

}  // namespace
