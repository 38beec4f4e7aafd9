// The loss of PPO on a micro-batch of padded rows: of the policy, and then of the model of values, so that
// only one of them has activations; or of both in one pass, if the values are of the policy's hidden states.
#pragma once
#include <memory>

#include "config/online/online_arguments.h"
#include "train/batch_loss.h"
#include "train/policy/values.h"

namespace trl::train {

// Columns of tokens of PPO's micro-batches, beside the states of rollout/padded_rows.h.
inline constexpr const char *kOld = "old", *kAdvantages = "advantages";

struct PpoScale {
  double accumulation = 1;  // micro-batches of an update
  double share = 1;         // of a micro-batch in the means of the metrics of its step
};

// policy, values, batch: outlive it.
std::unique_ptr<BatchLoss> ppo_loss(const Causal& policy, const Values& values,
                                    const config::OnlineArguments& arguments, const MicroBatch& batch,
                                    const PpoScale& scale);

}  // namespace trl::train
