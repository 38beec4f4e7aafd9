// PPO's losses against TRL's.
#include "loss/policy/ppo.h"

#include "loss/random_numbers.h"
#include "loss/recorded_metrics.h"
#include "loss/slope.h"
#include "support/golden.h"

namespace trl::loss {
namespace {

using base::Json;

TEST(Ppo, LossesAreTrls) {
  TRL_NEED_GOLDEN("losses/ppo.json");
  int cases = 0;
  for (const Json& c : test::golden_json("losses/ppo.json")["cases"]) {
    SCOPED_TRACE(c["config"].dump());
    ++cases;
    const test::RecordedTokens states(test::without_padding(c["padding_mask_p1"])),
        tokens(test::without_padding(c["padding_mask"]));
    const auto old = tokens.of<double>(c["old_logprobs"]),
               advantages = tokens.of<double>(c["advantages_whitened"]);
    const auto values = states.of<double>(c["values"]), returns = states.of<double>(c["returns"]);
    const PpoPolicy policy = {old, advantages, c["config"]["cliprange"]};
    const PpoValue value = {values, returns, c["config"]["cliprange_value"], c["config"]["vf_coef"]};
    const auto log_probs = tokens.of<double>(c["new_logprobs"]), predicted = states.of<double>(c["vpred"]);
    double loss = 0;
    std::vector<double> by_log_prob, by_value;
    for (size_t t = 0; t < log_probs.size(); ++t) {
      const PpoTerm term = policy.term(t, log_probs[t]);
      loss += term.loss;
      by_log_prob.push_back(term.by);
    }
    for (size_t t = 0; t < predicted.size(); ++t) {
      const PpoTerm term = value.term(t, predicted[t]);
      loss += term.loss;
      by_value.push_back(term.by);
    }
    EXPECT_TRUE(test::close(loss, c["loss"], test::limits::function)) << loss << " instead of " << c["loss"];
    test::expect_numbers(by_log_prob, tokens.of<double>(c["grad_new_logprobs"]), "by log-prob");
    test::expect_numbers(by_value, states.of<double>(c["grad_vpred"]), "by value");
    const double policy_loss = policy.metrics(log_probs, log_probs.size())[2].second;
    const double value_loss = value.metrics(predicted)[0].second;
    EXPECT_TRUE(test::close(policy_loss, c["policy_loss"], test::limits::function)) << policy_loss;
    EXPECT_TRUE(test::close(value_loss, c["value_loss"], test::limits::function)) << value_loss;
  }
  EXPECT_EQ(cases, 4);
}

// Two of four ratios are clipped; a position of padding adds 0 to the divergence and 1 to the ratios.
TEST(Ppo, MetricsOfThePolicy) {
  const std::vector<double> old = {-1, -1, -1, -1}, advantages = {1, -1, 1, -1};
  const std::vector<double> log_probs = {-0.5, -1.5, -1.5, -1};
  const Metrics got = PpoPolicy{old, advantages, 0.2}.metrics(log_probs, 5);
  const double up = std::exp(0.5), down = std::exp(-0.5);
  const Metrics want = {{"policy/approxkl_avg", 0.5 * 0.75 / 5},
                        {"policy/clipfrac_avg", 0.5},
                        {"loss/policy_avg", (-1.2 + 0.8 - down + 1) / 4},
                        {"val/ratio", (up + 2 * down + 2) / 5}};
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(got[i].first, want[i].first);
    EXPECT_NEAR(got[i].second, want[i].second, 1e-12) << want[i].first;
  }
}

// The first value moved away from its return by more than the range, the second towards it: there the
// clipped error is the greater one.
TEST(Ppo, MetricsOfTheValues) {
  const std::vector<double> old = {1, 1}, returns = {2, 2}, values = {0.5, 1.6};
  const Metrics got = PpoValue{old, returns, 0.2, 0.1}.metrics(values);
  EXPECT_EQ(got[0].first, "loss/value_avg");
  EXPECT_NEAR(got[0].second, 0.5 * (1.5 * 1.5 + 0.8 * 0.8) / 2, 1e-12);
  EXPECT_EQ(got[1].first, "val/clipfrac_avg");
  EXPECT_EQ(got[1].second, 0.5);
}

TEST(Ppo, DerivativesAreThoseOfTheLosses) {
  test::RandomNumbers number(7);
  for (int i = 0; i < 300; ++i) {
    const std::vector<double> old = {number(-3, 0)}, other = {number(-2, 2)};
    const PpoPolicy policy = {old, other, number(0.05, 0.4)};
    const PpoValue value = {old, other, number(0.05, 0.4), number(0.1, 1)};
    const double at = old[0] + number(-0.6, 0.6);
    const auto policy_loss = [&](const std::vector<double>& x) { return policy.term(0, x[0]).loss; };
    const auto value_loss = [&](const std::vector<double>& x) { return value.term(0, x[0]).loss; };
    EXPECT_NEAR(policy.term(0, at).by, test::slope(policy_loss, {at}), 1e-7);
    EXPECT_NEAR(value.term(0, at).by, test::slope(value_loss, {at}), 1e-7);
  }
}

}  // namespace
}  // namespace trl::loss
