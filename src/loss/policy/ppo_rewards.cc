#include "loss/policy/ppo_rewards.h"

#include <algorithm>
#include <cmath>

namespace trl::loss {

double kl_estimate(KlEstimator estimator, double difference) {
  if (estimator == KlEstimator::k1) return difference;
  return std::expm1(-difference) + difference;
}

std::vector<double> ppo_rewards(const PpoCompletion& completion, size_t width,
                                const PpoRewardOptions& options) {
  const size_t tokens = completion.log_probs.size();
  std::vector<double> rewards(std::max({tokens, std::min(tokens + 1, width), size_t{1}}));
  for (size_t t = 0; t < tokens; ++t)
    rewards[t] =
        -options.kl_coef * kl_estimate(options.estimator, completion.log_probs[t] - completion.reference[t]);
  rewards.back() += completion.score;
  return rewards;
}

Metrics ppo_objective(std::span<const PpoCompletion> completions, size_t width,
                      const PpoRewardOptions& options) {
  double kl = 0, entropy = 0, score = 0;
  for (const PpoCompletion& completion : completions) {
    const size_t tokens = completion.log_probs.size();
    for (size_t t = 0; t < tokens; ++t) {
      kl += kl_estimate(options.estimator, completion.log_probs[t] - completion.reference[t]);
      entropy -= completion.log_probs[t];
    }
    entropy -= static_cast<double>(width - tokens);
    score += completion.score;
  }
  const auto count = static_cast<double>(completions.size());
  const double other = -options.kl_coef * kl / count;
  return {{"objective/kl", kl / count},
          {"objective/entropy", entropy / count},
          {"objective/non_score_reward", other},
          {"objective/rlhf_reward", other + score / count},
          {"objective/scores", score / count}};
}

}  // namespace trl::loss
