// Rewards of the tokens of completions in PPO: the score of the completion at its end, less the divergence
// from the reference at each token. Pure; as in PPOTrainer.train of TRL 0.23.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "loss/metrics.h"

namespace trl::loss {

// Estimators of the divergence (Schulman 2020), d being log p - log of the reference's p.
enum class KlEstimator : uint8_t {
  k1,  // d
  k3,  // exp(-d) - 1 + d
};
double kl_estimate(KlEstimator estimator, double difference);

struct PpoRewardOptions {
  double kl_coef = 0.05;
  KlEstimator estimator = KlEstimator::k1;
};

// A completion up to its stop token. Batches are padded to `width` tokens.
struct PpoCompletion {
  std::span<const double> log_probs, reference;  // by token
  double score = 0;
};

// One reward more than there are tokens, for the token after the last, which has the score; a completion as
// wide as the batch has none, and its last token has the score.
std::vector<double> ppo_rewards(const PpoCompletion& completion, size_t width,
                                const PpoRewardOptions& options);

// objective/*: means over completions of sums over tokens. In the entropy, as in TRL, each token of padding
// counts as one of log-probability 1.
Metrics ppo_objective(std::span<const PpoCompletion> completions, size_t width,
                      const PpoRewardOptions& options);

}  // namespace trl::loss
