// The work after an update: what is due (trainer.py _maybe_log_save_evaluate, DefaultFlowCallback), samples,
// evaluations, checkpoints and the end of an epoch.
#include <chrono>
#include <string>
#include <utility>

#include "base/error.h"
#include "train/evaluator.h"
#include "train/rollout/rollouts.h"
#include "train/trainer/trainer.h"

namespace trl::train {

// Notes the work that follows this update.
void Trainer::note_due() {
  using config::Strategy;
  const int64_t done = state_.global_step;
  ended_ = ended_ || done >= steps_.max_steps;
  const auto due = [&](Strategy strategy, int64_t steps) {
    return strategy == Strategy::steps && (done % steps == 0 || done >= steps_.max_steps);
  };
  now_.log_due = (done == 1 && arguments().logging_first_step) ||
                 (arguments().logging_strategy == Strategy::steps && done % steps_.logging_steps == 0);
  now_.samples_due = samples_follow();
  if (due(arguments().save_strategy, steps_.save_steps)) now_.save_due = true;
  if (due(arguments().eval_strategy, steps_.eval_steps) &&
      arguments().eval_delay <= static_cast<double>(done))
    now_.evaluation_due = true;
}

void Trainer::follow_up() {
  for (;;) {
    if (now_.samples_due) sample();
    if (now_.log_due) records_.log_training();
    if (now_.evaluation_due) {
      const std::string& best = arguments().metric_for_best_model;
      for (const telemetry::Entry& entry : evaluate().entries())
        if (entry.name == (best.empty() ? "eval_loss" : best) && state_.global_step > 0)
          schedule_.evaluated(entry.value);
      if (saving_.note_best(records_.evaluation()) && arguments().save_strategy == config::Strategy::best)
        now_.save_due = true;
    }
    if (now_.save_due) save_due();
    if (!now_.in_epoch || !(now_.epoch_complete || stops())) return;
    end_epoch();
  }
}

// The rows of a window have drawn their numbers: what comes between draws none that a step after it would
// have.
template <class Body>
void Trainer::beside_training(Body&& body) {
  if (setup_.rollouts == nullptr) return body();
  batches_.settle();
  const std::string before = batches_.present_state();
  const RolloutChance chance = setup_.rollouts->chance();
  setup_.rollouts->set_step(state_.global_step);
  try {
    body();
  } catch (...) {
    batches_.return_to(before);
    throw;
  }
  if (!batches_.window().empty()) setup_.rollouts->set_chance(chance);
}

bool Trainer::samples_follow() const {
  return setup_.rollouts && setup_.rollouts->samples_after(state_.global_step, steps_.max_steps);
}

void Trainer::sample() {
  beside_training([this] { setup_.rollouts->sample(); });
  now_.samples_due = false;
}

// Skips a checkpoint that finds no room: the run is worth more than one of its checkpoints.
void Trainer::save_due() {
  now_.save_due = false;  // before saving, because the checkpoint records it as done
  const std::string directory = saving_.checkpoint_directory();
  try {
    write_checkpoint(directory);
  } catch (const Error& error) {
    if (error.status() != Status::io) {
      now_.save_due = true;
      throw;
    }
    const std::string& last = saving_.last_checkpoint();
    warn(
        "checkpoint-{} was not saved, and training continues to the next one: {}; the newest checkpoint is "
        "{}",
        state_.global_step, error.message(), last.empty() ? "none" : last);
    return;
  } catch (...) {
    now_.save_due = true;
    throw;
  }
  saving_.rotate(true);
  records_.emit(engine::EventKind::save, {}, directory);
}

// An epoch that a stop cut short is continued when the run is resumed.
void Trainer::end_epoch() {
  const bool whole = now_.epoch_complete;
  now_.in_epoch = now_.epoch_complete = false;
  if (whole) {
    now_.updates_in_epoch = 0;
    batches_.next_epoch();
  }
  now_.log_due = arguments().logging_strategy == config::Strategy::epoch;
  if (arguments().eval_strategy == config::Strategy::epoch && arguments().eval_delay <= state_.epoch)
    now_.evaluation_due = true;
  if (arguments().save_strategy == config::Strategy::epoch) now_.save_due = true;
  records_.emit(engine::EventKind::epoch, {});
}

const telemetry::Record& Trainer::evaluate() {
  make_whole();
  now_.evaluation_due = now_.evaluation_due && setup_.eval != nullptr;
  if (!arguments().method->evaluates)
    fail(Status::invalid_argument, "method {} has no loss of evaluation rows", arguments().method->name);
  if (setup_.eval == nullptr) fail(Status::invalid_argument, "there is no evaluation dataset");
  if (setup_.rollouts)
    config::check_evaluation_size(arguments().online, arguments().per_device_eval_batch_size);
  const kernels::PathScope scope(stepper_.path());
  const auto start = std::chrono::steady_clock::now();
  now_.training_mode = false;
  telemetry::Record record;
  beside_training([&] { record = measure(*setup_.eval); });
  batches_.count_evaluation();
  now_.evaluation_due = false;
  return records_.log_evaluation(std::move(record), start);
}

telemetry::Record Trainer::evaluate(engine::BatchSource& rows) {
  make_whole();
  const kernels::PathScope scope(stepper_.path());
  const auto start = std::chrono::steady_clock::now();
  return records_.evaluated(measure(rows), start);
}

telemetry::Record Trainer::measure(engine::BatchSource& rows) {
  return train::evaluate({arguments(), stepper_.method(), setup_.model->config(), stepper_.share(),
                          [&](const MicroBatch& part) { return stepper_.forward(part, std::nullopt); }},
                         rows);
}

}  // namespace trl::train
