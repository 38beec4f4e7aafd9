#include "train/run/run_steps.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/arithmetic/divide.h"
#include "base/error.h"
#include "base/text/number.h"

namespace trl::train {

namespace {

constexpr int64_t kDefaultSteps = 500;  // TrainerState's default

}  // namespace

int64_t RunSteps::window(int64_t update, int64_t accumulation) const {
  const int64_t rest = batches_per_epoch % accumulation;
  return update == updates_per_epoch - 1 && rest != 0 ? rest : accumulation;
}

double RunSteps::epochs(int64_t step, int64_t epoch, int64_t done_in_epoch) const {
  if (epochs_per_step > 0) return static_cast<double>(step) * epochs_per_step;
  return static_cast<double>(epoch) +
         static_cast<double>(done_in_epoch) / static_cast<double>(batches_per_epoch);
}

namespace {

// Counts the steps of a run by its completions (PPOTrainer.__init__).
void count_episodes(const config::TrainingArguments& arguments, int64_t rows, RunSteps& steps) {
  const int64_t batch = arguments.online.generation_batch_size;
  const auto passes = static_cast<int64_t>(arguments.num_train_epochs * static_cast<double>(rows));
  const int64_t episodes = arguments.online.total_episodes.value_or(passes);
  if (arguments.max_steps <= 0) steps.max_steps = base::divide_up(episodes, batch);
  steps.num_train_epochs = base::divide_up(steps.max_steps * batch, rows);
  steps.num_train_samples = static_cast<double>(steps.max_steps * batch);
  steps.epochs_per_step = static_cast<double>(batch) / static_cast<double>(rows);
}

}  // namespace

RunSteps run_steps(const config::TrainingArguments& arguments, int64_t batches, int64_t rows) {
  RunSteps steps;
  const int64_t accumulation = config::micro_batches_per_step(arguments);
  if (batches == 0) {
    fail_key("per_device_train_batch_size", "the training dataset has {}, which makes no batch of {}",
             base::quantity(rows, "row"), arguments.per_device_train_batch_size);
  }
  if (batches < 0 && arguments.max_steps <= 0) {
    fail_key("max_steps", "a dataset without a known length needs max_steps > 0, not {}",
             arguments.max_steps);
  }
  if (batches < 0) {
    steps.updates_per_epoch = arguments.max_steps;
    steps.batches_per_epoch = arguments.max_steps * accumulation;
    steps.num_train_epochs = std::numeric_limits<int64_t>::max();
  } else {
    steps.updates_per_epoch = base::divide_up(batches, accumulation);
    steps.batches_per_epoch = batches;
  }
  if (arguments.max_steps > 0) {
    steps.max_steps = arguments.max_steps;
    if (batches > 0) steps.num_train_epochs = base::divide_up(steps.max_steps, steps.updates_per_epoch);
    steps.num_train_samples = static_cast<double>(steps.max_steps) *
                              static_cast<double>(arguments.per_device_train_batch_size) *
                              static_cast<double>(accumulation);
  } else {
    if (arguments.num_train_epochs * static_cast<double>(steps.updates_per_epoch) > 9e15) {
      fail_key("num_train_epochs",
               "num_train_epochs: {} epochs of {} updates are too many: at most 9e15 updates",
               arguments.num_train_epochs, steps.updates_per_epoch);
    }
    steps.max_steps = static_cast<int64_t>(
        std::ceil(arguments.num_train_epochs * static_cast<double>(steps.updates_per_epoch)));
    steps.num_train_epochs = static_cast<int64_t>(std::ceil(arguments.num_train_epochs));
    steps.num_train_samples = static_cast<double>(rows) * arguments.num_train_epochs;
  }
  if (arguments.method->episodes && rows > 0) count_episodes(arguments, rows, steps);
  steps.logging_steps = std::max<int64_t>(1, config::update_count(arguments.logging_steps, steps.max_steps));
  const double eval_steps = arguments.eval_steps.value_or(0);
  if (eval_steps > 0) {
    steps.eval_steps = config::update_count(eval_steps, steps.max_steps);
  } else {
    steps.eval_steps =
        arguments.eval_strategy == config::Strategy::steps ? steps.logging_steps : kDefaultSteps;
  }
  steps.eval_steps = std::max<int64_t>(1, steps.eval_steps);
  steps.save_steps = std::max<int64_t>(1, config::update_count(arguments.save_steps, steps.max_steps));
  return steps;
}

}  // namespace trl::train
