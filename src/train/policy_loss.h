// Losses of the policy's own completions over the head: each target once, or after all of them were measured.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "loss/policy/policy.h"
#include "train/batch_loss.h"

namespace trl::train {

// Hears of the sum of the entropies of a micro-batch's targets and their number, after its last share.
using EntropyOf = std::function<void(double sum, double tokens)>;

// Makes the loss of a micro-batch from its columns: `advantages` by sequence, and of tokens `old`,
// `reference`, `sampling` and `importance`, as far as they are there. causal, batch: outlive it.
std::unique_ptr<BatchLoss> policy_loss(const Causal& causal, const loss::PolicyOptions& options,
                                       const MicroBatch& batch, const Divisors& divisors,
                                       double steps_per_generation, const EntropyOf& entropy = {});

}  // namespace trl::train
