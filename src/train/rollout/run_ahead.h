// Counts the generations, evaluations and samples that a run still needs.
#pragma once
#include <cstdint>

#include "config/training_arguments.h"
#include "engine/rollout.h"
#include "train/run/run_steps.h"

namespace trl::train {

// The updates between two samples of evaluation rows, of which the first follows the first update (as
// PPOTrainer.train); 0: there are none.
int64_t steps_between_samples(const config::TrainingArguments& arguments, int64_t max_steps);

// The position of a run before a window of micro-batches.
struct RunPlace {
  int64_t step = 0;  // updates done
  int64_t epoch = 0;
  int64_t done_in_epoch = 0;    // micro-batches
  int64_t next_generation = 0;  // of the epoch, the first that is not made
  int64_t micro_batches_of_generation = 1;
  bool has_evaluation = false;  // there are evaluation rows
};

class RunAhead final : public engine::RunAhead {
 public:
  // arguments, steps: outlive it.
  RunAhead(const config::TrainingArguments& arguments, const RunSteps& steps, const RunPlace& place)
      : arguments_(arguments), steps_(steps), place_(place) {}
  int64_t step() const noexcept override { return place_.step; }
  int64_t max_steps() const noexcept override { return steps_.max_steps; }
  engine::RolloutNeeds needs(int64_t max_steps) const noexcept override;

 private:
  int64_t evaluations(int64_t max_steps) const;

  const config::TrainingArguments& arguments_;
  const RunSteps& steps_;
  const RunPlace place_;
};

}  // namespace trl::train
