#include "train/run_steps.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/text/number.h"

namespace trl::train {

namespace {

constexpr int64_t kDefaultSteps = 500;  // TrainerState's default

int64_t divide_up(int64_t a, int64_t b) { return a / b + (a % b > 0 ? 1 : 0); }

}  // namespace

int64_t RunSteps::window(int64_t update, int64_t accumulation) const {
  const int64_t rest = batches_per_epoch % accumulation;
  return update == updates_per_epoch - 1 && rest != 0 ? rest : accumulation;
}

RunSteps run_steps(const config::TrainingArguments& arguments, int64_t batches, int64_t rows) {
  RunSteps steps;
  const int64_t accumulation = arguments.gradient_accumulation_steps;
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
    steps.updates_per_epoch = divide_up(batches, accumulation);
    steps.batches_per_epoch = batches;
  }
  if (arguments.max_steps > 0) {
    steps.max_steps = arguments.max_steps;
    if (batches > 0) steps.num_train_epochs = divide_up(steps.max_steps, steps.updates_per_epoch);
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
