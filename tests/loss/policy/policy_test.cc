// GRPO's losses against TRL's: values, gradients and metrics.
#include "loss/policy/policy.h"

#include <cmath>
#include <map>

#include "loss/recorded_metrics.h"
#include "support/golden.h"

namespace trl::loss {
namespace {

using base::Json;

PolicyOptions policy_options(const Json& c) {
  static const std::map<std::string, PolicyLoss> kLosses = {
      {"grpo", PolicyLoss::grpo},   {"bnpo", PolicyLoss::bnpo},   {"dr_grpo", PolicyLoss::dr_grpo},
      {"dapo", PolicyLoss::dapo},   {"cispo", PolicyLoss::cispo}, {"sapo", PolicyLoss::sapo},
      {"vespo", PolicyLoss::vespo}, {"luspo", PolicyLoss::luspo}};
  PolicyOptions o;
  o.loss = kLosses.at(c["loss_type"]);
  o.by_sequence = c["importance_sampling_level"] == "sequence";
  o.epsilon.low = c["epsilon"];
  o.epsilon.high = c["epsilon_high"].is_null() ? c["epsilon"] : c["epsilon_high"];
  if (!c["delta"].is_null()) o.delta = c["delta"].get<double>();
  o.beta = c["beta"];
  o.bias_correction = c["use_bias_correction_kl"];
  o.sapo_positive = c["sapo_temperature_pos"];
  o.sapo_negative = c["sapo_temperature_neg"];
  o.vespo_positive = {c["vespo_k_pos"], c["vespo_lambda_pos"]};
  o.vespo_negative = {c["vespo_k_neg"], c["vespo_lambda_neg"]};
  if (!c["off_policy_mask_threshold"].is_null())
    o.off_policy_threshold = c["off_policy_mask_threshold"].get<double>();
  o.top_entropy_quantile = c["top_entropy_quantile"];
  if (c["entropy_coef"] != 0) o.entropy_coef = c["entropy_coef"].get<double>();
  o.max_completion_length = c["max_completion_length"];
  return o;
}

// vespo multiplies the importance of all positions of a row, and in TRL's batches that of a masked one is 1.
// Those of the recorded tool results are not: they go to the row's last target.
void fold_masked_importance(const Json& c, const test::RecordedTokens& tokens,
                            std::vector<float>& importance) {
  for (size_t target = 0; target < importance.size(); ++target) {
    const auto [row, last] = tokens.at[target];
    if (target + 1 < tokens.at.size() && tokens.at[target + 1].row == row) continue;
    const Json &ratios = c["importance_sampling_ratio"][row], &tool_mask = c["tool_mask"][row];
    for (size_t t = 0; t < ratios.size(); ++t)
      if (c["completion_mask"][row][t] == 1 && tool_mask[t] == 0)
        importance[target] *= ratios[t].get<float>();
  }
}

struct PolicyCase {
  PolicyOptions options;
  test::RecordedTokens tokens;
  std::vector<float> advantages, old, reference, sampling, importance;
  std::vector<double> log_probs, entropies;
  PolicyScale scale;

  explicit PolicyCase(const Json& c)
      : options(policy_options(c["config"])),
        tokens(c["completion_mask"], c.value("tool_mask", Json())),
        advantages(c["advantages"].get<std::vector<float>>()),
        old(tokens.of(c["old_per_token_logps"])),
        reference(tokens.of(c["ref_per_token_logps"])),
        sampling(tokens.of(c.value("sampling_per_token_logps", Json()))),
        importance(tokens.of(c.value("importance_sampling_ratio", Json()))),
        log_probs(tokens.of<double>(c["per_token_logps"])),
        entropies(tokens.of<double>(c["entropies"])) {
    scale.items = c["config"]["num_items_in_batch"];
    if (c["config"].value("mode", "train") == "train") {
      scale.accumulated = c["config"]["gradient_accumulation_steps"];
      scale.steps_per_generation = c["config"]["steps_per_generation"];
    }
    if (options.loss == PolicyLoss::vespo && !c.value("tool_mask", Json()).is_null())
      fold_masked_importance(c, tokens, importance);
  }
  PolicyBatch batch() const { return {advantages, tokens.rows, old, reference, sampling, importance}; }
};

void expect_gradient(double got, const Json& want, const char* name, const test::RecordedTokens::At& at) {
  EXPECT_TRUE(test::close(got, want[at.row][at.token], test::limits::function))
      << name << " " << at.row << ", " << at.token << ": " << got << " instead of " << want[at.row][at.token];
}

void expect_as_recorded(const std::string& file, int expected_cases) {
  int cases = 0;
  for (const Json& c : test::golden_json(file)["cases"]) {
    SCOPED_TRACE(std::to_string(cases) + ": " + c["config"].dump());
    ++cases;
    const PolicyCase in(c);
    Policy policy(in.options, in.batch(), in.scale);
    if (!policy.by_token()) policy.measure(in.log_probs, in.entropies);
    double loss = 0;
    if (!c.value("aux_loss", Json()).is_null()) {  // which the trainer adds
      const double by_aux = c["config"]["router_aux_loss_coef"].get<double>() / in.scale.accumulated;
      EXPECT_TRUE(test::close(by_aux, c["grad_aux_loss"], test::limits::function));
      loss += by_aux * c["aux_loss"].get<double>();
    }
    for (size_t t = 0; t < in.log_probs.size(); ++t) {
      const Policy::Term term = policy.term(t, in.log_probs[t], in.entropies[t]);
      loss += term.loss;
      expect_gradient(term.by_log_prob, c["grad_per_token_logps"], "log-prob", in.tokens.at[t]);
      if (!c.value("grad_entropies", Json()).is_null())
        expect_gradient(term.by_entropy, c["grad_entropies"], "entropy", in.tokens.at[t]);
    }
    EXPECT_TRUE(test::close(loss, c["loss"], test::limits::function)) << loss << " instead of " << c["loss"];
    test::expect_metrics(policy.metrics(in.log_probs, in.entropies), c["metrics"],
                         {"entropy_coef", "aux_loss"});
  }
  EXPECT_EQ(cases, expected_cases);
}

TEST(Policy, IsTrls) {
  TRL_NEED_GOLDEN("losses/grpo.json");
  expect_as_recorded("losses/grpo.json", 72);
}

TEST(Policy, IsTrlsOnline) {
  TRL_NEED_GOLDEN("losses/grpo_online.json");
  expect_as_recorded("losses/grpo_online.json", 51);
}

// All completions were cut, and count in no loss.
TEST(Policy, MetricsOfNoTokensAreZero) {
  const std::vector<float> advantages = {1, -1};
  for (const PolicyLoss loss : {PolicyLoss::dapo, PolicyLoss::grpo, PolicyLoss::bnpo, PolicyLoss::cispo}) {
    PolicyOptions o;
    o.loss = loss;
    o.beta = 0.1;
    const Policy policy(o, {.advantages = advantages, .rows = {}}, {});
    for (const auto& [name, value] : policy.metrics({}, {})) {
      const bool extreme = name == "clip_ratio/low_min" || name == "clip_ratio/high_max";
      EXPECT_TRUE(extreme ? std::isnan(value) : value == 0) << name << value;
    }
  }
}

double phi_of(double log_prob, std::vector<float> importance) {
  const std::vector<float> advantages = {1}, old(importance.size(), -1);
  const std::vector<int32_t> rows(importance.size(), 0);
  PolicyOptions o;
  o.loss = PolicyLoss::vespo;
  o.vespo_positive = {0.5, 1e-4};
  const Policy policy(o, {.advantages = advantages, .rows = rows, .old = old, .importance = importance}, {});
  const std::vector<double> log_probs(importance.size(), log_prob), entropies(importance.size(), 0);
  return policy.metrics(log_probs, entropies).back().second;
}

// phi = w^k exp(lambda (1 - w)), k being 0.5 and lambda 1e-4.
TEST(Policy, VespoBoundsLogarithms) {
  EXPECT_NEAR(phi_of(-1, {0, 2, 2}), 2e-4 * std::exp(1e-4), 1e-10);  // each weight counts at least 1e-8,
  EXPECT_NEAR(phi_of(-1, {0, 0.5}), 1e-4 * std::exp(1e-4), 1e-10);   // and so does their product
  EXPECT_NEAR(phi_of(-41, {1}), 1e-4 * std::exp(1e-4), 1e-10);       // a ratio counts at least exp(-20),
  EXPECT_EQ(phi_of(39, {1}), phi_of(19, {1}));                       // and at most exp(20)
}

}  // namespace
}  // namespace trl::loss
