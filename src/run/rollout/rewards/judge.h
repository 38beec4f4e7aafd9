// A judge of pairs of completions (Online DPO) as a reward.
#pragma once
#include <memory>

#include "reward/batch.h"

namespace trl::run {

// function: gives the probability that the first completion of a pair is better than the second. The better
// completion is rewarded with 1 and the other with 0; a pair without a winner (0.5, or NaN) gets no rewards.
// The completions of a batch are the first of each pair, then the second of each. Throws Error(callback) for
// a probability outside [0, 1].
std::unique_ptr<reward::Reward> judge_of_pairs(std::unique_ptr<reward::Reward> function);

}  // namespace trl::run
