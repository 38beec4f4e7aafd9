// GRPO's losses with random options and rows, against the formulas written row by row, whose derivatives are
// finite differences.
#include <algorithm>
#include <cmath>

#include "loss/policy/policy.h"
#include "loss/random_numbers.h"
#include "loss/slope.h"
#include "support/recorded.h"

namespace trl::loss {
namespace {

using Numbers = std::vector<double>;

struct RandomBatch {
  PolicyOptions options;
  PolicyScale scale;
  std::vector<float> advantages, old, reference, sampling, importance;
  std::vector<int32_t> rows;
  Numbers log_probs, entropies;

  explicit RandomBatch(uint32_t seed) : number(seed) {
    choose_options();
    const size_t row_count = 1 + number.below(5);
    for (size_t r = 0; r < row_count; ++r) {
      advantages.push_back(static_cast<float>(number(-2, 2)));
      rows.insert(rows.end(), number.below(6), static_cast<int32_t>(r));  // may be none
    }
    const bool with_old = some(), with_sampling = some(), with_importance = some();
    for (size_t t = 0; t < rows.size(); ++t) {
      log_probs.push_back(number(-3, -0.1));
      entropies.push_back(number(0, 3));
      const auto near = [&] { return static_cast<float>(log_probs.back() + number(-0.7, 0.7)); };
      if (with_old) old.push_back(near());
      if (options.beta != 0) reference.push_back(near());
      if (with_sampling) sampling.push_back(some(0.2) ? NAN : near());
      if (with_importance) importance.push_back(some(0.2) ? 0 : static_cast<float>(number(0, 2)));
    }
    scale = {number(1, 40), std::floor(number(1, 5)), std::floor(number(1, 5))};
  }
  PolicyBatch batch() const { return {advantages, rows, old, reference, sampling, importance}; }

 private:
  bool some(double share = 0.5) { return number(0, 1) < share; }
  void choose_options() {
    options.loss = static_cast<PolicyLoss>(number.below(8));
    options.by_sequence = some();
    options.epsilon = {number(0.05, 0.4), number(0.05, 0.4)};
    if (options.loss == PolicyLoss::cispo) options.epsilon.high = number(0.5, 2);
    if (some()) options.delta = number(1.05, 2);
    if (some()) options.beta = number(0.01, 0.5);
    options.bias_correction = some();
    options.sapo_positive = number(0.5, 2);
    options.sapo_negative = number(0.5, 2);
    options.vespo_positive = {number(0.5, 3), number(0.5, 3)};
    options.vespo_negative = {number(0.5, 3), number(0.5, 3)};
    if (some()) options.off_policy_threshold = number(-0.2, 0.2);
    if (some()) options.top_entropy_quantile = number(0.1, 0.9);
    if (some()) options.entropy_coef = number(0, 0.1);
    options.max_completion_length = 9;
  }
  test::RandomNumbers number;
};

std::vector<bool> highest(const RandomBatch& b) {
  std::vector<bool> kept(b.entropies.size(), true);
  if (b.options.top_entropy_quantile == 1 || kept.empty()) return kept;
  Numbers sorted = b.entropies;
  std::ranges::sort(sorted);
  const double rank = (1 - b.options.top_entropy_quantile) * static_cast<double>(sorted.size() - 1);
  const auto above = static_cast<size_t>(std::ceil(rank));
  for (size_t t = 0; t < kept.size(); ++t) kept[t] = b.entropies[t] >= sorted[above];
  return kept;
}

// The loss at x; constants of the formulas are those of b.log_probs.
double loss_at(const RandomBatch& b, const Numbers& x, const Numbers& entropies) {
  const PolicyOptions& o = b.options;
  const std::vector<bool> kept = highest(b);
  const auto old = [&](size_t t) { return b.old.empty() ? b.log_probs[t] : static_cast<double>(b.old[t]); };
  const auto weight = [&](size_t t) {
    return b.importance.empty() ? 1.0 : static_cast<double>(b.importance[t]);
  };
  double sum_of_means = 0, sum = 0, bonus = 0, bonus_count = 0;
  for (size_t r = 0; r < b.advantages.size(); ++r) {
    const double a = static_cast<double>(b.advantages[r]);
    Numbers tokens;
    double log_ratio = 0, constant_log_ratio = 0, drift = 0, sequence = 0, count = 0;
    for (size_t t = 0; t < b.rows.size(); ++t) {
      if (b.rows[t] != static_cast<int32_t>(r)) continue;
      ++count;
      log_ratio += x[t] - old(t);
      constant_log_ratio += b.log_probs[t] - old(t);
      sequence += b.log_probs[t] - old(t) + std::log(std::max(weight(t), 1e-8));
      const double sampled = b.sampling.empty() ? old(t) : static_cast<double>(b.sampling[t]);
      if (!std::isnan(sampled)) drift += sampled - b.log_probs[t];
    }
    if (count == 0) continue;
    const bool masked = o.off_policy_threshold && a < 0 && drift / count > *o.off_policy_threshold;
    const Vespo& v = a >= 0 ? o.vespo_positive : o.vespo_negative;
    const double w = std::exp(std::max(sequence, std::log(1e-8))),
                 phi = std::pow(w, v.k) * std::exp(v.lambda * (1 - w));
    double row = 0;
    for (size_t t = 0; t < b.rows.size(); ++t) {
      if (b.rows[t] != static_cast<int32_t>(r)) continue;
      const double ratio = std::exp(o.by_sequence ? log_ratio / count : x[t] - old(t));
      const double constant = std::exp(o.by_sequence ? constant_log_ratio / count : b.log_probs[t] - old(t));
      const double tau = a > 0 ? o.sapo_positive : o.sapo_negative;
      double loss = -std::min(std::min(ratio, o.delta.value_or(1e9)) * a,
                              std::clamp(ratio, 1 - o.epsilon.low, 1 + o.epsilon.high) * a);
      if (o.loss == PolicyLoss::cispo) loss = -std::min(constant, o.epsilon.high) * a * x[t];
      if (o.loss == PolicyLoss::sapo) loss = -4 / tau / (1 + std::exp(-tau * (ratio - 1))) * a;
      if (o.loss == PolicyLoss::vespo) loss = -phi * a * x[t];
      if (o.loss != PolicyLoss::vespo) loss *= weight(t);
      if (masked || !kept[t]) loss = 0;
      if (o.beta != 0) {
        const double gap = static_cast<double>(b.reference[t]) - x[t];
        loss += o.beta * (std::exp(gap) - gap - 1) * (o.bias_correction ? ratio : 1);
      }
      row += loss;
      bonus += kept[t] ? entropies[t] : 0;
      bonus_count += kept[t] ? 1 : 0;
    }
    sum += row;
    sum_of_means += row / count;
  }
  const auto rows = static_cast<double>(b.advantages.size()), targets = static_cast<double>(b.rows.size());
  const double entropy = bonus_count > 0 ? o.entropy_coef.value_or(0) * bonus / bonus_count : 0;
  double loss = sum / (b.scale.items / b.scale.steps_per_generation);  // dapo, cispo, vespo
  if (o.loss == PolicyLoss::grpo || o.loss == PolicyLoss::sapo) loss = sum_of_means / rows;
  if (o.loss == PolicyLoss::bnpo) loss = sum / std::max(targets, 1.0);
  if (o.loss == PolicyLoss::dr_grpo) loss = sum / (rows * 9);
  if (o.loss == PolicyLoss::luspo) loss = sum / rows;
  return (loss - entropy) / b.scale.accumulated;
}

TEST(Policy, DerivativesAreThoseOfTheLoss) {
  constexpr test::Limit kSlope{1e-7, 1e-6};
  int measured = 0;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    const RandomBatch b(seed);
    Policy policy(b.options, b.batch(), b.scale);
    if (!policy.by_token()) {
      policy.measure(b.log_probs, b.entropies);
      ++measured;
    }
    double loss = 0;
    for (size_t t = 0; t < b.rows.size(); ++t) {
      const Policy::Term term = policy.term(t, b.log_probs[t], b.entropies[t]);
      loss += term.loss;
      const double by_log_prob =
          test::slope([&](const Numbers& x) { return loss_at(b, x, b.entropies); }, b.log_probs, t);
      const double by_entropy =
          test::slope([&](const Numbers& e) { return loss_at(b, b.log_probs, e); }, b.entropies, t);
      EXPECT_TRUE(test::close(term.by_log_prob, by_log_prob, kSlope))
          << t << ": " << term.by_log_prob << " " << by_log_prob;
      EXPECT_TRUE(test::close(term.by_entropy, by_entropy, kSlope))
          << t << ": " << term.by_entropy << " " << by_entropy;
    }
    EXPECT_NEAR(loss, loss_at(b, b.log_probs, b.entropies), 1e-10);
    EXPECT_EQ(std::ssize(policy.counted(b.log_probs, b.entropies)), std::ranges::count(highest(b), true));
  }
  EXPECT_GT(measured, 100);
  EXPECT_LT(measured, 380);
}

// The policy and the reference are the same weights before the first update.
TEST(Policy, AGapOfRoundingIsNone) {
  PolicyOptions options;
  options.beta = 0.5;
  const std::vector<float> advantages = {0}, reference = {-6.0000005f, -6.1f};
  const std::vector<int32_t> rows = {0, 0};
  const Policy policy(options, {.advantages = advantages, .rows = rows, .reference = reference},
                      {.items = 2});
  EXPECT_EQ(policy.term(0, -6, 1).by_log_prob, 0);
  EXPECT_EQ(policy.term(0, -6, 1).loss, 0);
  EXPECT_GT(std::abs(policy.term(1, -6, 1).by_log_prob), 1e-3);
}

}  // namespace
}  // namespace trl::loss
