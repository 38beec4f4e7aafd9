// The loss of a reward model (Bradley and Terry 1952) over the pairs of one micro-batch: scores -> a scalar
// and its derivatives. Pure; as in TRL's RewardTrainer.compute_loss.
#pragma once
#include <span>
#include <vector>

namespace trl::loss {

struct RewardPair {
  double chosen = 0, rejected = 0;  // scores
  double margin = 0;                // by how much the chosen score should be higher
};

struct RewardResult {
  double loss = 0;
  std::vector<double> by_chosen, by_rejected;
};
// The mean over pairs of -log sigmoid(chosen - rejected - margin), plus center times the mean squared sum of
// both scores (Eisenstein et al. 2023); 0: not added.
RewardResult reward_loss(std::span<const RewardPair> pairs, double center);

}  // namespace trl::loss
