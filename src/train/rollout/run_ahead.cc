#include "train/rollout/run_ahead.h"

#include <algorithm>
#include <cmath>

#include "base/arithmetic/divide.h"

namespace trl::train {

namespace {

// Counts the multiples of a number above `after`, up to `last`.
int64_t multiples(int64_t of, int64_t after, int64_t last) {
  return std::max<int64_t>(0, last / of - after / of);
}

}  // namespace

int64_t steps_between_samples(const config::TrainingArguments& arguments, int64_t max_steps) {
  const int64_t times = arguments.online.num_sample_generations;
  return times > 0 ? std::max<int64_t>(1, max_steps / times) : 0;
}

engine::RolloutNeeds RunAhead::needs(int64_t max_steps) const noexcept {
  engine::RolloutNeeds needs;
  const int64_t accumulation = config::micro_batches_per_step(arguments_);
  const int64_t of_epoch = steps_.batches_per_epoch / place_.micro_batches_of_generation;
  const int64_t updates = place_.done_in_epoch / accumulation + max_steps - place_.step;
  const int64_t epochs = updates / steps_.updates_per_epoch, rest = updates % steps_.updates_per_epoch;
  needs.generations = std::max<int64_t>(
      0, epochs * of_epoch + base::divide_up(rest * accumulation, place_.micro_batches_of_generation) -
             place_.next_generation);
  if (!place_.has_evaluation) return needs;
  if (arguments_.method->evaluates) needs.evaluations = evaluations(max_steps);
  // Samples are taken after steps 1, 1 + distance, 1 + 2 * distance and so on.
  if (const int64_t distance = steps_between_samples(arguments_, steps_.max_steps); distance > 0)
    needs.samples = multiples(distance, place_.step + distance - 1, max_steps + distance - 1);
  return needs;
}

// Follows Trainer::note_due and end_epoch.
int64_t RunAhead::evaluations(int64_t max_steps) const {
  const auto delay = static_cast<int64_t>(std::ceil(arguments_.eval_delay));
  if (arguments_.eval_strategy == config::Strategy::steps) {
    const int64_t after = std::max(place_.step, delay - 1);
    const bool last = max_steps % steps_.eval_steps != 0 && max_steps > after;
    return multiples(steps_.eval_steps, after, max_steps) + (last ? 1 : 0);
  }
  if (arguments_.eval_strategy != config::Strategy::epoch) return 0;
  // an epoch that the run does not finish is evaluated at its end
  const int64_t accumulation = config::micro_batches_per_step(arguments_);
  const int64_t updates = place_.done_in_epoch / accumulation + max_steps - place_.step;
  const int64_t epochs = place_.epoch + updates / steps_.updates_per_epoch;
  const int64_t rest = updates % steps_.updates_per_epoch * accumulation;
  const bool part = rest > 0 && arguments_.eval_delay <= steps_.epochs(max_steps, epochs, rest);
  return std::max<int64_t>(0, epochs - std::max(place_.epoch, delay - 1)) + (part ? 1 : 0);
}

}  // namespace trl::train
