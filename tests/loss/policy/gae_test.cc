// Generalised advantages and whitening against TRL's.
#include "loss/policy/gae.h"

#include "loss/recorded_tokens.h"
#include "support/golden.h"

namespace trl::loss {
namespace {

using base::Json;

// The advantages of all episodes, one after the other.
std::vector<double> advantages_of(const test::RecordedTokens& tokens, std::span<const double> rewards,
                                  std::span<const double> values, double gamma, double lambda) {
  std::vector<double> advantages(rewards.size());
  for (size_t first = 0, end = 0; first < rewards.size(); first = end) {
    while (end < rewards.size() && tokens.rows[end] == tokens.rows[first]) ++end;
    const size_t count = end - first;
    estimate_advantages(rewards.subspan(first, count), values.subspan(first, count), gamma, lambda,
                        std::span(advantages).subspan(first, count));
  }
  return advantages;
}

TEST(Gae, IsTrls) {
  TRL_NEED_GOLDEN("losses/ppo.json");
  for (const Json& c : test::golden_json("losses/ppo.json")["cases"]) {
    SCOPED_TRACE(c["config"].dump());
    const test::RecordedTokens states(test::without_padding(c["padding_mask_p1"])),
        tokens(test::without_padding(c["padding_mask"]));
    std::vector<double> rewards = states.of<double>(c["rewards"]);
    const std::vector<double> values = states.of<double>(c["values"]);
    const std::vector<double> got =
        advantages_of(states, rewards, values, c["config"]["gamma"], c["config"]["lam"]);
    test::expect_numbers(got, states.of<double>(c["advantages"]), "advantages");
    std::vector<double> returns(values);
    for (size_t i = 0; i < returns.size(); ++i) returns[i] += got[i];
    test::expect_numbers(returns, states.of<double>(c["returns"]), "returns");
    std::vector<double> whitened = tokens.of<double>(c["advantages"]);
    whiten(whitened, false);
    test::expect_numbers(whitened, tokens.of<double>(c["advantages_whitened"]), "whitened advantages");
    whiten(rewards, true);
    test::expect_numbers(rewards, states.of<double>(c["rewards_whitened_no_shift"]), "whitened rewards");
  }
}

TEST(Gae, IsThatOfRuns) {
  TRL_NEED_GOLDEN("losses/ppo_rollouts.json");
  for (const Json& c : test::golden_json("losses/ppo_rollouts.json")["cases"]) {
    SCOPED_TRACE(c["run"].dump());
    const test::RecordedTokens states(test::without_padding(c["padding_mask_p1"])),
        tokens(test::without_padding(c["padding_mask"]));
    const std::vector<double> rewards = states.of<double>(c["rewards"]),
                              values = states.of<double>(c["values"]);
    std::vector<double> returns =
        advantages_of(states, rewards, values, c["config"]["gamma"], c["config"]["lam"]);
    for (size_t i = 0; i < returns.size(); ++i) returns[i] += values[i];
    test::expect_numbers(returns, states.of<double>(c["returns"]), "returns");
    std::vector<double> advantages = tokens.of<double>(c["advantages_before_whitening"]);
    whiten(advantages, false);
    test::expect_numbers(advantages, tokens.of<double>(c["advantages_whitened"]), "whitened advantages");
  }
}

TEST(Gae, WhitenedSingleNumberIsZero) {
  std::vector<double> one = {3};
  whiten(one, false);
  EXPECT_EQ(one[0], 0);
  whiten(one, true);
  EXPECT_EQ(one[0], 0);
}

}  // namespace
}  // namespace trl::loss
