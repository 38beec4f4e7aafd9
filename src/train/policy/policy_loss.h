// The loss of a micro-batch of the policy's own completions.
#pragma once
#include <functional>
#include <memory>
#include <span>

#include "loss/policy/policy.h"
#include "train/policy/joint_loss.h"

namespace trl::train {

// Values of a micro-batch's targets.
struct PolicyValues {
  std::span<const double> log_probs;
  std::span<const double> counted;  // entropies that the bonus counts
  std::span<const float> stated;    // column kStated; empty: there is none
};
using PolicyValuesOf = std::function<void(const PolicyValues& values)>;

// Makes the loss of a micro-batch from its columns: `advantages` by sequence, and of tokens `old`,
// `reference`, `sampling` and `importance`, as far as they are there. batch: outlives it. values: called
// after the last share.
std::unique_ptr<OwnLoss> policy_loss(const loss::PolicyOptions& options, const MicroBatch& batch,
                                     const Divisors& divisors, double steps_per_generation,
                                     const PolicyValuesOf& values = {});

}  // namespace trl::train
