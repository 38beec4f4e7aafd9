#include "loss/policy/policy.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace trl::loss {

namespace {

void check_policy_batch(const PolicyOptions& options, const PolicyBatch& batch) {
  const size_t targets = batch.rows.size();
  const auto fits = [&](std::span<const float> column) { return column.empty() || column.size() == targets; };
  if (!fits(batch.old) || !fits(batch.reference) || !fits(batch.sampling) || !fits(batch.importance))
    fail(Status::internal, "a policy's batch of {} targets has a column of another length", targets);
  if (options.beta != 0 && targets > 0 && batch.reference.empty())
    fail(Status::internal, "a policy's batch has no reference log-probabilities, and beta is {}",
         options.beta);
  for (size_t t = 0; t < targets; ++t) {
    const int32_t row = batch.rows[t], least = t == 0 ? 0 : batch.rows[t - 1];
    if (row < least || static_cast<size_t>(row) >= batch.advantages.size())
      fail(Status::internal, "target {} of a policy's batch is in row {}, expected {} to {}", t, row, least,
           static_cast<int64_t>(batch.advantages.size()) - 1);
  }
}

}  // namespace

Policy::Policy(const PolicyOptions& options, const PolicyBatch& batch, const PolicyScale& scale)
    : options_(options), batch_(batch), scale_(scale) {
  check_policy_batch(options, batch);
  state_.rows.resize(batch.advantages.size());
  for (size_t r = 0, target = 0; r < state_.rows.size(); ++r) {
    Row& row = state_.rows[r];
    row.first = target;
    while (target < batch.rows.size() && row_of(target) == r) ++target;
    row.end = target;
    row.share = share(row);
  }
  state_.bonus = -options.entropy_coef.value_or(0) /
                 (std::max(static_cast<double>(batch.rows.size()), 1.0) * scale.accumulated);
}

bool Policy::divided_by_items() const {
  return options_.loss == PolicyLoss::dapo || options_.loss == PolicyLoss::cispo ||
         options_.loss == PolicyLoss::vespo;
}

double Policy::share(const Row& row) const {
  const auto rows = static_cast<double>(batch_.advantages.size());
  if (divided_by_items())
    return scale_.steps_per_generation / (std::max(scale_.items, 1.0) * scale_.accumulated);
  double divisor = rows;
  if (options_.loss == PolicyLoss::grpo || options_.loss == PolicyLoss::sapo)
    divisor *= std::max(row.targets(), 1.0);
  if (options_.loss == PolicyLoss::bnpo) divisor = std::max(static_cast<double>(batch_.rows.size()), 1.0);
  if (options_.loss == PolicyLoss::dr_grpo) divisor *= static_cast<double>(options_.max_completion_length);
  return 1 / (divisor * scale_.accumulated);
}

Dual Policy::ratio(const State& state, size_t target, double log_prob) const {
  if (options_.by_sequence) return exp(Dual::variable(state.rows[row_of(target)].log_ratio, 1));
  return exp(Dual::variable(log_prob - old(target, log_prob), 0));
}

// The estimator k3 (Schulman 2020) of the divergence from the reference. A gap that the order of sums makes
// is none, as in TRL, whose two passes have the same order: Adam would make a whole step of its gradient.
Dual Policy::divergence(const Dual& ratio, size_t target, double log_prob) const {
  constexpr double kRounding = 0x1p-21;
  const auto reference = static_cast<double>(batch_.reference[target]);
  if (std::abs(reference - log_prob) <= kRounding * std::max(1.0, std::abs(log_prob))) return {};
  const Dual gap = Dual(reference) - Dual::variable(log_prob, 0);
  const Dual estimate = exp(gap) - gap - Dual(1);
  return options_.bias_correction ? estimate * ratio : estimate;
}

Dual Policy::objective(const Dual& ratio, const Row& row, size_t target, double log_prob) const {
  const double a = advantage(target);
  const Dual logp = Dual::variable(log_prob, 0);
  const double importance = batch_.importance.empty() ? 1 : static_cast<double>(batch_.importance[target]);
  switch (options_.loss) {
    case PolicyLoss::cispo:
      return logp * (-std::min(ratio.value, options_.epsilon.high) * a * importance);
    case PolicyLoss::vespo:
      return logp * (-row.phi * a);  // phi holds the importance
    case PolicyLoss::sapo: {
      const double temperature = a > 0 ? options_.sapo_positive : options_.sapo_negative;
      return sigmoid((ratio - Dual(1)) * temperature) * (-4 / temperature * a * importance);
    }
    default:
      return clipped(ratio, a, options_.epsilon, options_.delta) * importance;
  }
}

Dual Policy::policy_term(const State& state, size_t target, double log_prob) const {
  const Row& row = state.rows[row_of(target)];
  const Dual ratio_now = ratio(state, target, log_prob);
  Dual loss;
  if (row.weight != 0 && (state.kept.empty() || state.kept[target]))
    loss = objective(ratio_now, row, target, log_prob);
  if (options_.beta != 0) loss = loss + divergence(ratio_now, target, log_prob) * options_.beta;
  return loss * row.share;
}

Policy::Term Policy::term(size_t target, double log_prob, double entropy) const {
  const Dual loss = policy_term(state_, target, log_prob);
  const double by_entropy = state_.kept.empty() || state_.kept[target] ? state_.bonus : 0;
  return {loss.value + by_entropy * entropy, loss.by[0] + state_.rows[row_of(target)].by_log_prob,
          by_entropy};
}

}  // namespace trl::loss
