// The halves of a step: the rows of its window and their gradients, and the update, which then counts.
#include <cmath>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "train/records/step_profile.h"
#include "train/rollout/rollouts.h"
#include "train/trainer/trainer.h"

namespace trl::train {

bool Trainer::first_half() {
  const auto step = std::make_shared<Begun>(0.0, set_rate_.load(), StepProfile(arguments().profile_parts),
                                            sync_seconds().value_or(0));
  const StepProfile::Running running(step->profile);
  const std::vector<MicroBatch>& window = fill_window();
  if (window.empty()) {
    // No later epoch has a batch if this one has none.
    ended_ = ended_ || batches_.done_in_epoch() == 0;
    now_.in_epoch = now_.epoch_complete = true;
    return false;
  }
  StepPlace place{state_.global_step,
                  std::isnan(step->set_rate) ? schedule_.learning_rate(state_.global_step) : step->set_rate};
  if (state_.global_step > now_.skipped && std::isfinite(now_.grad_norm))
    place.previous_norm = now_.grad_norm;
  try {
    stepper_.backward(window, place);
  } catch (...) {
    stepper_.leave();
    throw;
  }
  step->learning_rate = place.learning_rate;
  begun_ = step;
  return true;
}

void Trainer::second_half(bool apply) {
  const std::shared_ptr<Begun> step = begun_;  // until the end of this function
  const StepProfile::Running running(step->profile);
  Learned learned = stepper_.end(apply);
  begun_.reset();
  const std::vector<MicroBatch>& window = batches_.window();
  learned.seconds = step->profile.seconds() - learned.optimizer_seconds;
  std::optional<double> synced = sync_seconds();
  if (synced) *synced -= step->synced_before;
  learned.metrics.push_back(step->profile.metrics(window, arguments().method->generates, synced));
  count(window, learned, step->learning_rate);
}

// Seconds in which weights went to a server so far; none: the run has none.
std::optional<double> Trainer::sync_seconds() const {
  if (!setup_.rollouts || !arguments().online.server) return std::nullopt;
  return setup_.rollouts->sync_seconds();
}

const std::vector<MicroBatch>& Trainer::fill_window() {
  const int64_t count = steps_.window(now_.updates_in_epoch, config::micro_batches_per_step(arguments()));
  if (setup_.rollouts) setup_.rollouts->set_step(state_.global_step, count);
  try {
    return batches_.fill_window(count);
  } catch (...) {
    stepper_.forget_ahead();
    throw;
  }
}

// A failure here is that of the update, which meets it, too, and can be tried again then.
void Trainer::work_ahead(std::span<const data::Batch> window) {
  try {
    std::vector<MicroBatch> own;
    for (const data::Batch& batch : window) own.push_back(batches_.own(batch));
    stepper_.forward_ahead(own, {state_.global_step});
  } catch (const Error& error) {
    stepper_.forget_ahead();
    if (error.status() == Status::cancelled) throw;
  } catch (const std::exception&) {
    stepper_.forget_ahead();
  }
}

void Trainer::count(std::span<const MicroBatch> window, const Learned& learned, double learning_rate) {
  records_.count(window, learned);
  batches_.window_done();
  now_.training_mode = true;
  now_.learning_rate = learning_rate;
  ++now_.updates_in_epoch;
  ++state_.global_step;
  stepper_.method().updated(state_.global_step);
  state_.epoch = steps_.epochs(state_.global_step, batches_.epoch(), batches_.done_in_epoch());
  now_.in_epoch = true;
  now_.epoch_complete = now_.updates_in_epoch >= steps_.updates_per_epoch;
  note_due();
  records_.send_step(learned);
}

}  // namespace trl::train
