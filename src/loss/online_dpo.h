// The loss of Online DPO (Guo et al. 2024): DPO over pairs of completions that the policy wrote and a reward
// ordered. Pure; as in TRL's OnlineDPOTrainer.training_step.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "loss/dpo.h"
#include "loss/metrics.h"

namespace trl::loss {

struct OnlineDpoOptions {
  DpoLoss loss = DpoLoss::sigmoid;  // or ipo, here of sums over tokens
  double beta = 0.1;
  std::optional<double> missing_eos_penalty;  // less reward for a completion without an end
};

struct OnlineCompletion {
  double logp = 0, ref_logp = 0;                // sums over its tokens
  double padded_logp = 0, padded_ref_logp = 0;  // the same with padding, as TRL's objective/* have it
  double reward = 0;
  bool ended = true;  // has an end-of-sequence token
  bool scored = true;
};

struct OnlineDpoResult {
  double loss = 0;
  std::vector<double> by_logp;  // by completion
  Metrics metrics;
};
// The mean over prompts. completions: the first of each prompt, then the second of each; the one with the
// greater reward is chosen, of equal ones the first. Two that are not scored have no derivative.
OnlineDpoResult online_dpo_loss(std::span<const OnlineCompletion> completions,
                                const OnlineDpoOptions& options);

}  // namespace trl::loss
