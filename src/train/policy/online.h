// The shared part of methods that learn from the policy's own completions, each token of which keeps its
// log-probabilities when it was written (GRPO, RLOO, Online DPO, PPO).
#pragma once
#include <functional>
#include <memory>
#include <optional>

#include "data/batch/prefix_tree.h"
#include "loss/policy/advantages.h"
#include "train/rollout/rollout_batches.h"
#include "train/scoring/scorer.h"

namespace trl::train {

class Online : public Method, public RolloutMethod {
 public:
  RolloutMethod* rollouts() final { return this; }
  Divisors divisors(std::span<const MicroBatch> window, bool training) const override {
    return {.batches = static_cast<double>(window.size()), .training = training};
  }
  model::Output forward(const MicroBatch& batch, const std::optional<RunPosition>& training,
                        const at::Tensor& states) final {
    return causal_.forward(batch, training, states);
  }
  std::string faulty_reference() final { return reference_ ? reference_->faulty_weight() : ""; }
  void updated(int64_t step) override;
  std::vector<optim::StateTensor> state(int64_t step) override;

 protected:
  // compares: it has a reference.
  Online(const MethodContext& context, bool compares);
  const Causal& causal() const { return causal_; }
  const config::TrainingArguments& all_arguments() const { return arguments_; }
  const config::OnlineArguments& arguments() const { return arguments_.online; }
  // Runs rows of a rollout in parts; the body gets each part with the rollout's rows of its sequences.
  using EachPart = std::function<void(const MicroBatch& part, std::span<const int64_t> rows)>;
  void each_part(const Rollout& rollout, const EachPart& body) const;
  // Return log-probabilities of the tokens that count and of the padding, 0 for others; a part of the rows at
  // a time. old: of the policy before the first update; those of generation if it is exact.
  TokenRows old_log_probs(const Rollout& rollout);
  TokenRows reference_log_probs(const Rollout& rollout);
  // Appends TRL's metrics of the gap between log-probabilities before an update and those that are stated, if
  // they are, and were computed in another way.
  void add_gap(const TokenRows& log_probs, Rollout& rollout) const;
  // Adds the column kStated for a loss that finds the gap itself. Padding has NaN.
  void keep_stated(Rollout& rollout) const;
  // The rewards of a rollout for their advantages; views of it.
  loss::Rewards rewards_of(const Rollout& rollout) const;
  // Takes over advantages, and TRL's metrics of rewards.
  void take(const loss::Advantages& advantages, Rollout& rollout) const;

 private:
  TokenRows log_probs(const Rollout& rollout, Scorer& scorer);

  const config::TrainingArguments arguments_;
  const Causal causal_;
  const std::unique_ptr<Scorer> policy_;
  const std::unique_ptr<Scorer> reference_;  // or null
  const std::optional<data::TreeLimits> share_;
};

}  // namespace trl::train
