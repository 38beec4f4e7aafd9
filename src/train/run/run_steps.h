// The length of a run, and when it logs, evaluates and saves: Trainer's arithmetic, done once (trainer.py
// set_initial_training_values, TrainerState.compute_steps).
#pragma once
#include <cstdint>

#include "config/training_arguments.h"

namespace trl::train {

struct RunSteps {
  int64_t batches_per_epoch = 0;  // of a counted epoch; streaming: of the whole run
  int64_t updates_per_epoch = 0;
  int64_t max_steps = 0;
  int64_t num_train_epochs = 0;
  double num_train_samples = 0;
  int64_t logging_steps = 0;
  int64_t eval_steps = 0;
  int64_t save_steps = 0;
  double epochs_per_step = 0;  // of a method of episodes, whose rows left over at the end of an epoch count

  // Returns the number of micro-batches of the update with this index in its epoch.
  int64_t window(int64_t update, int64_t accumulation) const;
  // Returns the epochs done after `step` updates, the last of which ended with this micro-batch of an epoch.
  double epochs(int64_t step, int64_t epoch, int64_t done_in_epoch) const;
};

// batches, rows: of one epoch; -1: not known, which needs max_steps. Throws Error(invalid_config).
RunSteps run_steps(const config::TrainingArguments& arguments, int64_t batches, int64_t rows);

}  // namespace trl::train
