// The losses of PPO (Schulman et al. 2017) over the tokens of one micro-batch: of the policy, by
// log-probabilities, and of the model of values. Pure; as in PPOTrainer.train of TRL 0.23.
#pragma once
#include <cstddef>
#include <span>

#include "loss/metrics.h"
#include "loss/policy/clipped.h"

namespace trl::loss {

// A token's part of a loss, and its derivative by the token's log-probability or value. All parts add up to
// the loss.
struct PpoTerm {
  double loss = 0, by = 0;
};

// The mean of the clipped objective over the tokens of the completions. All spans have a number for each.
struct PpoPolicy {
  std::span<const double> old;  // log-probabilities when the tokens were written
  std::span<const double> advantages;
  double cliprange = 0.2;

  PpoTerm term(size_t token, double log_prob) const;
  // loss/policy_avg, policy/clipfrac_avg, and two means over all `positions` of the padded micro-batch:
  // policy/approxkl_avg and val/ratio, to which padding adds 0 and 1.
  Metrics metrics(std::span<const double> log_probs, size_t positions) const;
};

// Half the mean squared error of the values, or of values that moved by cliprange_value at most, whichever is
// greater, times `weight`. Counts the token after the last too (see ppo_rewards).
struct PpoValue {
  std::span<const double> old;  // values when the tokens were written
  std::span<const double> returns;
  double cliprange_value = 0.2;
  double weight = 0.1;  // vf_coef

  PpoTerm term(size_t token, double value) const;
  // loss/value_avg, without the weight, and val/clipfrac_avg: how often the clipped error is the greater one.
  Metrics metrics(std::span<const double> values) const;
};

}  // namespace trl::loss
