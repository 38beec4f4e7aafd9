// The loss of a micro-batch of the policy's own completions.
#pragma once
#include <functional>
#include <memory>

#include "loss/policy/policy.h"
#include "train/policy/joint_loss.h"

namespace trl::train {

// Hears of the sum of the entropies of a micro-batch's targets and their number, after the last share.
using EntropyOf = std::function<void(double sum, double tokens)>;

// Makes the loss of a micro-batch from its columns: `advantages` by sequence, and of tokens `old`,
// `reference`, `sampling` and `importance`, as far as they are there. batch: outlives it.
std::unique_ptr<OwnLoss> policy_loss(const loss::PolicyOptions& options, const MicroBatch& batch,
                                     const Divisors& divisors, double steps_per_generation,
                                     const EntropyOf& entropy = {});

}  // namespace trl::train
