// The values of PPO: the rewards that are expected after a token, as a second model predicts them, or a head
// on the hidden states of the policy (value_head_on_policy).
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "train/method.h"

namespace trl::train {

class Values {
 public:
  // policy: outlives it.
  Values(const MethodContext& context, const Causal& policy);
  // Whether forward() is the policy's, so that one pass and one backward serve both.
  bool on_policy() const { return model_ == nullptr; }
  std::vector<TrainedModel> trained() const;  // with the policy
  model::Output forward(const MicroBatch& part, const std::optional<RunPosition>& training) const;
  // Returns the values of these rows of hidden states: float32 [rows], on the host.
  at::Tensor at(const model::Output& output, const std::vector<int32_t>& rows) const;

 private:
  const std::unique_ptr<model::Model> model_;      // null: on the policy
  const std::unique_ptr<tensor::Parameter> head_;  // on the policy, or null
  const std::optional<Causal> own_;                // of the second model
  const Causal& causal_;                           // the policy, or own_
};

}  // namespace trl::train
