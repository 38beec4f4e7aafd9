// Which of GRPO's losses, and its constants.
#pragma once
#include <cstdint>
#include <optional>

#include "loss/policy/clipped.h"

namespace trl::loss {

// The loss of a token, and what their sum is divided by. All but cispo, sapo and vespo clip the ratio between
// the token's probability and its old one.
enum class PolicyLoss : uint8_t {
  grpo,     // the mean over rows of their means over tokens
  bnpo,     // the mean over the tokens of the micro-batch
  dr_grpo,  // divided by rows times max_completion_length (Liu et al. 2025)
  dapo,     // divided by the tokens of the generation batch (Yu et al. 2025)
  cispo,    // -min(ratio, epsilon_high) A log p, the minimum a constant (MiniMax 2025), divided as in dapo
  sapo,     // a sigmoid of the ratio (Gao et al. 2025, arXiv 2511.20347), the mean as in grpo
  vespo,    // -phi A log p, phi from the ratio of the sequence (arXiv 2602.10693), divided as in dapo
  luspo,    // the mean over rows of their sums over tokens (Length-Unbiased Sequence Policy Optimization)
};

// phi = w^k exp(lambda (1 - w)), a constant, w being the probability ratio of a sequence.
struct Vespo {
  double k, lambda;
};

struct PolicyOptions {
  PolicyLoss loss = PolicyLoss::dapo;
  bool by_sequence = false;  // the ratio is that of the sequence, to the power 1 / tokens (Zheng et al. 2025)
  Clip epsilon;              // cispo: `high` is the greatest ratio itself, `low` is not used
  std::optional<double> delta;  // the greatest ratio that is not clipped
  double beta = 0;              // weight of the divergence from the reference; 0: there is no reference
  bool bias_correction = true;  // the divergence counts ratio times, and learns through the ratio too
  double sapo_positive = 1, sapo_negative = 1.05;          // temperatures by the sign of the advantage
  Vespo vespo_positive = {2, 3}, vespo_negative = {3, 2};  // by the sign of the advantage
  // A row with a negative advantage counts only if the mean of log(sampling / p) is at most this.
  std::optional<double> off_policy_threshold;
  double top_entropy_quantile = 1;     // the share of tokens that count, those of the highest entropy
  std::optional<double> entropy_coef;  // of the bonus, the mean entropy of the tokens that count
  int64_t max_completion_length = 512;
};

}  // namespace trl::loss
