// The micro-batches of a run whose method learns from completions, and of its evaluation.
#pragma once
#include <memory>
#include <optional>

#include "train/rollout/rollout_batches.h"

namespace trl::train {

class Rollouts {
 public:
  Rollouts(const config::TrainingArguments& arguments, const engine::RolloutSpec& spec,
           std::unique_ptr<CompletionWriter> writer);
  void learn_by(RolloutMethod& method);
  void while_rewards_come(RolloutBatches::WhileRewardsCome work) {
    train_.while_rewards_come(std::move(work));
  }
  // Has the source checked before the first micro-batch of training.
  void set_length(const RunSteps& length) { train_.set_length(length); }
  void set_step(int64_t step, int64_t window = 0);  // RolloutBatches::set_step
  engine::BatchSource* train() { return &train_; }
  double sync_seconds() const { return train_.sync_seconds(); }
  // Null if there are no evaluation rows, or the method has no loss of them.
  engine::BatchSource* eval() { return eval_ && arguments_.method->evaluates ? &*eval_ : nullptr; }
  // Says how long the completions took, and the longest of each generation alone; silent if there were none.
  void say(base::LogSink& log) const;
  // Says whether samples of evaluation rows are due after this many steps of max_steps.
  bool samples_after(int64_t step, int64_t max_steps) const;
  void sample() { eval_->sample(); }
  // The numbers that training and evaluations draw next.
  const RolloutChance& chance() const { return chance_; }
  void set_chance(const RolloutChance& chance) { chance_ = chance; }

 private:
  const config::TrainingArguments arguments_;
  const engine::RolloutSpec spec_;
  Writers writers_;
  RolloutChance chance_;
  RolloutBatches train_;
  std::optional<RolloutBatches> eval_;
};

}  // namespace trl::train
