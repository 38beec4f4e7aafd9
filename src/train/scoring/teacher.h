// The shared part of methods in which a model learns the distributions of a teacher over the vocabulary, at
// each token of completions (Distillation, GKD).
#pragma once
#include <memory>
#include <optional>

#include "train/rollout/rollout_batches.h"
#include "train/scoring/scorer.h"

namespace trl::train {

class Taught : public Method, public RolloutMethod {
 public:
  RolloutMethod* rollouts() final { return this; }
  void before_rewards(Rollout&) override {}
  void after_rewards(Rollout&) final {}
  model::Output forward(const MicroBatch& batch, const std::optional<RunPosition>& training,
                        const at::Tensor& states) final {
    return causal_.forward(batch, training, states);
  }
  std::unique_ptr<BatchLoss> loss(const MicroBatch& batch, std::span<const MicroBatch> parts,
                                  const Divisors& divisors) final;
  const model::Model* teacher() final { return writes_ ? model_ : nullptr; }
  std::string faulty_reference() final { return teacher_->faulty_weight(); }

 protected:
  // tells_entropy: of the policy, as a metric.
  Taught(const MethodContext& context, bool tells_entropy);

 private:
  const Causal causal_;
  const model::Model* model_ = nullptr;  // the teacher's
  const bool writes_;                    // it completes prompts
  const std::unique_ptr<Scorer> teacher_;
  const double beta_;
  const bool tells_entropy_;
};

}  // namespace trl::train
