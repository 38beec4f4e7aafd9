// Online DPO's loss against TRL's.
#include "loss/online_dpo.h"

#include <algorithm>

#include "loss/recorded_metrics.h"
#include "support/golden.h"

namespace trl::loss {
namespace {

using base::Json;

double sum_of(const Json& row, const Json& mask, bool padding) {
  double sum = 0;
  for (size_t t = 0; t < row.size(); ++t)
    if (padding || mask[t] != 0) sum += row[t].get<double>();
  return sum;
}

std::vector<OnlineCompletion> completions_of(const Json& c) {
  std::vector<OnlineCompletion> completions;
  for (size_t r = 0; r < c["rewards"].size(); ++r) {
    const Json &logprobs = c["logprobs"][r], &reference = c["ref_logprobs"][r],
               &mask = c["completion_mask"][r];
    const std::vector<int> ids = c["completion_ids"][r];
    completions.push_back(
        {.logp = sum_of(logprobs, mask, false),
         .ref_logp = sum_of(reference, mask, false),
         .padded_logp = sum_of(logprobs, mask, true),
         .padded_ref_logp = sum_of(reference, mask, true),
         .reward = c["rewards"][r],
         .ended = std::ranges::find(ids, c["config"]["eos_token_id"].get<int>()) != ids.end()});
  }
  return completions;
}

TEST(OnlineDpoLoss, IsTrls) {
  TRL_NEED_GOLDEN("losses/online_dpo.json");
  int cases = 0;
  for (const Json& c : test::golden_json("losses/online_dpo.json")["cases"]) {
    SCOPED_TRACE(std::to_string(cases) + ": " + c["config"].dump());
    ++cases;
    const Json& config = c["config"];
    OnlineDpoOptions o;
    o.loss = config["loss_type"] == "ipo" ? DpoLoss::ipo : DpoLoss::sigmoid;
    o.beta = config["beta"];
    if (!config["missing_eos_penalty"].is_null())
      o.missing_eos_penalty = config["missing_eos_penalty"].get<double>();
    const OnlineDpoResult got = online_dpo_loss(completions_of(c), o);
    EXPECT_TRUE(test::close(got.loss, c["loss"], test::limits::function))
        << got.loss << " instead of " << c["loss"];
    const test::RecordedTokens tokens(c["completion_mask"]);
    for (const auto [row, token] : tokens.at)
      EXPECT_TRUE(test::close(got.by_logp[row], c["grad_logprobs"][row][token], test::limits::function));
    test::expect_metrics(got.metrics, c["metrics"]);
  }
  EXPECT_EQ(cases, 8);
}

TEST(OnlineDpoLoss, ChoosesTheFirstOfEqualRewards) {
  const std::vector<OnlineCompletion> completions = {{.logp = -2, .reward = 1}, {.logp = -3, .reward = 1}};
  const OnlineDpoResult got = online_dpo_loss(completions, {});
  EXPECT_LT(got.by_logp[0], 0);
  EXPECT_EQ(got.by_logp[0], -got.by_logp[1]);
}

}  // namespace
}  // namespace trl::loss
