// PPO's rewards of tokens against those of runs of TRL.
#include "loss/policy/ppo_rewards.h"

#include "loss/policy/gae.h"
#include "loss/recorded_metrics.h"
#include "support/golden.h"

namespace trl::loss {
namespace {

using base::Json;

struct Rollout {
  test::RecordedTokens tokens;
  std::vector<double> log_probs, reference;
  std::vector<PpoCompletion> completions;
  size_t width;

  explicit Rollout(const Json& c)
      : tokens(test::without_padding(c["padding_mask"])),
        log_probs(tokens.of<double>(c["logprobs"])),
        reference(tokens.of<double>(c["ref_logprobs"])),
        width(c["padding_mask"][0].size()) {
    for (size_t r = 0, first = 0; r < tokens.row_count; ++r) {
      size_t end = first;
      while (end < tokens.rows.size() && tokens.at[end].row == r) ++end;
      completions.push_back({std::span(log_probs).subspan(first, end - first),
                             std::span(reference).subspan(first, end - first), c["scores"][r]});
      first = end;
    }
  }
};

PpoRewardOptions reward_options(const Json& config) {
  return {config["kl_coef"], config["kl_estimator"] == "k3" ? KlEstimator::k3 : KlEstimator::k1};
}

TEST(PpoRewards, AreThoseOfRuns) {
  TRL_NEED_GOLDEN("losses/ppo_rollouts.json");
  int cases = 0;
  for (const Json& c : test::golden_json("losses/ppo_rollouts.json")["cases"]) {
    SCOPED_TRACE(c["run"].dump());
    ++cases;
    const Json& config = c["config"];
    const Rollout in(c);
    const PpoRewardOptions options = reward_options(config);
    std::vector<double> rewards;
    for (const PpoCompletion& completion : in.completions) {
      const std::vector<double> row = ppo_rewards(completion, in.width, options);
      rewards.insert(rewards.end(), row.begin(), row.end());
    }
    const test::RecordedTokens states(test::without_padding(c["padding_mask_p1"]));
    if (config["whiten_rewards"]) whiten(rewards, true);
    test::expect_numbers(rewards, states.of<double>(c["rewards"]), "rewards");
    test::expect_metrics(ppo_objective(in.completions, in.width, options), c["metrics"]);
  }
  EXPECT_EQ(cases, 12);
}

TEST(PpoRewards, ScoreOfACompletionWithoutPaddingIsAtItsLastToken) {
  const std::vector<double> log_probs = {-1, -2}, reference = {-1.5, -1};
  const PpoRewardOptions options = {0.1, KlEstimator::k1};
  const std::vector<double> at_end = ppo_rewards({log_probs, reference, 3}, 2, options);
  ASSERT_EQ(at_end.size(), 2u);
  EXPECT_NEAR(at_end[0], -0.05, 1e-12);
  EXPECT_NEAR(at_end[1], 3.1, 1e-12);
  EXPECT_EQ(ppo_rewards({log_probs, reference, 3}, 4, options).size(), 3u);
  EXPECT_EQ(ppo_rewards({{}, {}, 3}, 4, options), std::vector<double>{3});
}

}  // namespace
}  // namespace trl::loss
