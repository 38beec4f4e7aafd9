// RLOO's loss against TRL's.
#include "loss/policy/rloo.h"

#include "loss/random_numbers.h"
#include "loss/recorded_metrics.h"
#include "loss/slope.h"
#include "support/golden.h"

namespace trl::loss {
namespace {

using base::Json;

TEST(RlooLoss, IsTrls) {
  TRL_NEED_GOLDEN("losses/rloo.json");
  int cases = 0;
  for (const Json& c : test::golden_json("losses/rloo.json")["cases"]) {
    SCOPED_TRACE(std::to_string(cases) + ": " + c["config"].dump());
    ++cases;
    const test::RecordedTokens tokens(c["completion_mask"]);
    const std::vector<double> log_probs = tokens.of<double>(c["per_token_logps"]);
    std::vector<RlooRow> rows(tokens.row_count);
    for (size_t r = 0; r < rows.size(); ++r) rows[r] = {0, c["old_logps"][r], c["advantages"][r]};
    for (size_t t = 0; t < log_probs.size(); ++t) rows[tokens.at[t].row].logp += log_probs[t];
    const RlooResult got = rloo_loss(rows, {c["config"]["epsilon"], c["config"]["epsilon_high"]});
    EXPECT_TRUE(test::close(got.loss, c["loss"], test::limits::function))
        << got.loss << " instead of " << c["loss"];
    for (const auto [row, token] : tokens.at)
      EXPECT_TRUE(
          test::close(got.by_logp[row], c["grad_per_token_logps"][row][token], test::limits::function));
    test::expect_metrics(got.metrics, c["metrics"], {"entropy"});
  }
  EXPECT_EQ(cases, 9);
}

TEST(RlooLoss, DerivativesAreThoseOfTheLoss) {
  test::RandomNumbers number(7);
  for (int i = 0; i < 100; ++i) {
    const Clip clip = {number(0.05, 0.4), number(0.05, 0.4)};
    std::vector<RlooRow> rows(1 + number.below(4));
    std::vector<double> sums;
    for (RlooRow& row : rows) {
      sums.push_back(number(-9, -1));
      row = {sums.back(), sums.back() + number(-0.6, 0.6), number(-2, 2)};
    }
    const auto loss = [&](const std::vector<double>& x) {
      for (size_t r = 0; r < rows.size(); ++r) rows[r].logp = x[r];
      return rloo_loss(rows, clip).loss;
    };
    const RlooResult got = rloo_loss(rows, clip);
    for (size_t r = 0; r < rows.size(); ++r) EXPECT_NEAR(got.by_logp[r], test::slope(loss, sums, r), 1e-7);
  }
}

}  // namespace
}  // namespace trl::loss
