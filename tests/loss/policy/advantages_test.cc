// Advantages of GRPO, GDPO and RLOO against TRL's.
#include "loss/policy/advantages.h"

#include <cmath>

#include "loss/recorded_tokens.h"
#include "support/error_of.h"
#include "support/golden.h"

namespace trl::loss {
namespace {

using base::Json;

std::vector<double> flat(const Json& matrix) {
  std::vector<double> numbers;
  for (const Json& row : matrix)
    for (const Json& value : row) numbers.push_back(test::recorded_number(value));
  return numbers;
}

Json mask_of_lengths(const Json& lengths) {
  Json mask = Json::array();
  for (const Json& length : lengths) mask.push_back(std::vector<int>(length.get<size_t>(), 1));
  return mask;
}

Advantages advantages_of(const Json& c, const Rewards& rewards) {
  const Json& config = c["config"];
  if (c["trainer"] == "grpo") {
    if (config["multi_objective_aggregation"] == "normalize_then_sum") return gdpo_advantages(rewards);
    const std::string scale = config["scale_rewards"];
    return grpo_advantages(rewards, scale == "group"   ? RewardScale::group
                                    : scale == "batch" ? RewardScale::batch
                                                       : RewardScale::none);
  }
  RlooOptions o;
  o.beta = config["beta"];
  o.normalize = config["normalize_advantages"];
  if (!config["reward_clip_range"].is_null())
    o.clip = {config["reward_clip_range"][0].get<double>(), config["reward_clip_range"][1].get<double>()};
  if (o.beta == 0) return rloo_advantages(rewards, o, {});
  const test::RecordedTokens tokens(mask_of_lengths(c["completion_lengths"]));
  const auto old = tokens.of<double>(c["old_per_token_logps"]),
             reference = tokens.of<double>(c["ref_per_token_logps"]);
  std::vector<double> sums(tokens.row_count);
  for (size_t t = 0; t < old.size(); ++t) sums[tokens.at[t].row] += old[t] - reference[t];
  const ReferenceGap divergence = {sums, static_cast<double>(old.size())};
  EXPECT_TRUE(test::close(divergence.mean(), c["metrics"]["kl"], test::limits::function));
  return rloo_advantages(rewards, o, divergence);
}

TEST(Advantages, AreTrls) {
  TRL_NEED_GOLDEN("losses/advantages.json");
  int cases = 0;
  for (const Json& c : test::golden_json("losses/advantages.json")["cases"]) {
    SCOPED_TRACE(std::to_string(cases) + ": " + c["config"].dump());
    ++cases;
    const std::vector<double> values = flat(c["rewards_per_func"]), weights = c["reward_weights"];
    const Advantages got = advantages_of(c, {values, weights, c["num_generations"]});
    const auto expect = [&](double number, const Json& want, const std::string& name) {
      EXPECT_TRUE(test::close(number, test::recorded_number(want), test::limits::function))
          << name << ": " << number << " instead of " << want;
    };
    ASSERT_EQ(got.values.size(), c["advantages"].size());
    for (size_t r = 0; r < got.values.size(); ++r)
      expect(got.values[r], c["advantages"][r], std::to_string(r));
    const Json& metrics = c["metrics"];
    size_t compared = metrics.contains("kl") ? 1 : 0;
    for (size_t f = 0; f < weights.size(); ++f, compared += 2) {
      const std::string name = "rewards/r" + std::to_string(f);
      expect(got.mean[f], metrics.at(name + "/mean"), name + "/mean");
      expect(got.std[f], metrics.at(name + "/std"), name + "/std");
    }
    expect(got.reward, metrics.at("reward"), "reward");
    expect(got.reward_std, metrics.at("reward_std"), "reward_std");
    expect(got.frac_reward_zero_std, metrics.at("frac_reward_zero_std"), "frac_reward_zero_std");
    EXPECT_EQ(compared + 3, metrics.size());
  }
  EXPECT_EQ(cases, 45);
}

// As in an evaluation with one completion of each prompt.
TEST(Advantages, OfGroupsOfOneAreZero) {
  const std::vector<double> values = {1, 2.5, -3}, weights = {1};
  const Rewards rewards = {values, weights, 1};
  for (const Advantages& got :
       {grpo_advantages(rewards, RewardScale::group), grpo_advantages(rewards, RewardScale::none),
        gdpo_advantages(rewards), rloo_advantages(rewards, {}, {})}) {
    EXPECT_EQ(got.values, std::vector<float>(3, 0));
    EXPECT_EQ(got.frac_reward_zero_std, 1);
    EXPECT_NEAR(got.reward, 0.5 / 3, 1e-12);
  }
}

TEST(Advantages, NeedWholeGroups) {
  const std::vector<double> values(6, 1), weights = {1};
  const auto error = [](const std::function<void()>& body) { return test::error_of(body).second; };
  EXPECT_EQ(error([&] {
              grpo_advantages({values, weights, 4}, RewardScale::group);
            }),
            "6 rewards of 1 functions, expected whole groups of 4 rows");
  EXPECT_EQ(error([&] {
              gdpo_advantages({values, {}, 2});
            }),
            "6 rewards of 0 functions, expected whole groups of 2 rows");
  const std::vector<double> sums(5, 0.0);
  EXPECT_EQ(error([&] { rloo_advantages({values, weights, 2}, {}, {sums, 10}); }), "5 divergences of 6 rows");
}

// A difference to the mean of the others is count / (count - 1) times that to the mean of all.
TEST(Advantages, OfRlooLeaveOneOut) {
  const std::vector<double> values = {1, 4, 7, 0, 2, 0}, weights = {1};
  const Advantages got = rloo_advantages({values, weights, 3}, {}, {});
  EXPECT_EQ(got.values, (std::vector<float>{-4.5, 0, 4.5, -1, 2, -1}));
}

}  // namespace
}  // namespace trl::loss
