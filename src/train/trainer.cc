// The order of a run: steps, the work after an update, and the end (trainer.py _maybe_log_save_evaluate,
// DefaultFlowCallback, _finalize_training).
#include "train/trainer.h"

#include "base/error.h"
#include "base/files/files.h"
#include "base/memory/system_memory.h"
#include "tensor/memory/rehearsal.h"
#include "train/disk_needs.h"
#include "train/evaluator.h"
#include "train/rollout/rollouts.h"
#include "train/step_profile.h"

namespace trl::train {

namespace {

// Checks a setup. A rehearsal writes to no real memory.
Setup checked(Setup setup) {
  check_device(setup.arguments, setup.model->device());
  if (setup.arguments.makes_offload_dir && tensor::Rehearsal::current() == nullptr)
    base::make_directories(config::offload_directory(setup.arguments));
  return setup;
}

telemetry::TrainerState state_of(const RunSteps& steps, const config::TrainingArguments& arguments) {
  telemetry::TrainerState state;
  state.max_steps = steps.max_steps;
  state.logging_steps = steps.logging_steps;
  state.eval_steps = steps.eval_steps;
  state.save_steps = steps.save_steps;
  state.num_train_epochs = steps.num_train_epochs;
  state.train_batch_size = arguments.per_device_train_batch_size;
  return state;
}

}  // namespace

Trainer::Trainer(Setup setup)
    : setup_(checked(std::move(setup))),
      steps_(run_steps(arguments(), setup_.train->batches_per_epoch(), setup_.train->rows())),
      state_(state_of(steps_, arguments())),
      records_(setup_, steps_, state_, now_),
      stepper_(setup_),
      saving_(setup_, stepper_, state_),
      schedule_(arguments(), steps_.max_steps),
      batches_(*setup_.train, setup_.model->config().vocab_size, stepper_.share(), stepper_.method().joins()),
      ended_(steps_.max_steps <= 0) {
  if (!setup_.rollouts) return;
  setup_.rollouts->learn_by(*stepper_.method().rollouts());
  setup_.rollouts->set_length(steps_);
  setup_.rollouts->while_rewards_come([this](std::span<const data::Batch> window) { work_ahead(window); });
}

Trainer::~Trainer() = default;

template <class Body>
auto Trainer::explained(const Body& body) {
  try {
    return body();
  } catch (const Error& error) {
    if (stepper_.torn()) throw error.with(torn(error.message()));
    if (error.status() == Status::callback && setup_.rollouts) throw error.with(can_go_on(error.message()));
    if (error.status() != Status::cancelled) throw;
    if (begun())
      fail(Status::cancelled, "cancelled before the update of step {} of {}, which is still to be made",
           state_.global_step + 1, steps_.max_steps);
    fail(Status::cancelled, "cancelled after step {} of {}", state_.global_step, steps_.max_steps);
  }
}

bool Trainer::step() {
  return begin_step([this] { end_step(true); });
}

bool Trainer::backward() {
  need_halves();
  return begin_step([this] {
    begun_->metrics = records_.begun(batches_.window(), stepper_.learned(), begun_->learning_rate);
  });
}

void Trainer::update(bool apply) {
  need_begun();
  explained([&] { end_step(apply); });
}

template <class Rest>
bool Trainer::begin_step(const Rest& rest) {
  check_usable();
  need_whole_step();
  if (phase_ == Phase::closed && !complete()) reopen();
  if (phase_ >= Phase::finished) return false;
  return explained([&] {
    const kernels::PathScope scope(stepper_.path());
    begin();
    do {
      follow_up();
      if (stops()) return false;
    } while (!first_half());
    try {
      rest();
    } catch (...) {
      leave_begun();
      throw;
    }
    return true;
  });
}

void Trainer::end_step(bool apply) {
  const kernels::PathScope scope(stepper_.path());
  second_half(apply);
  follow_up();
}

void Trainer::need_whole_step() const {
  if (begun())
    fail(Status::invalid_argument,
         "step {} has begun, and its second half comes first: call trl_trainer_update",
         state_.global_step + 1);
}

void Trainer::need_begun() const {
  if (!begun()) fail(Status::invalid_argument, "no step has begun: trl_trainer_backward begins one");
}

void Trainer::need_halves() const {
  if (arguments().optimizer_in_backward)
    throw Error(Status::unsupported,
                "optimizer_in_backward: true changes the weights during backward, so a step has no halves: "
                "call trl_trainer_step, or leave the option out",
                "optimizer_in_backward");
  if (arguments().method->episodes)
    throw Error(Status::unsupported,
                fmt::format("method {} makes several updates in a step, which has no halves: call "
                            "trl_trainer_step",
                            arguments().method->name),
                "method");
}

void Trainer::leave_begun() {
  if (!begun()) return;
  begun_.reset();
  stepper_.leave();
}

std::string Trainer::torn(const std::string& why) const {
  return fmt::format(
      "optimizer_in_backward: step {} ended in the middle of its updates, so some weights are those after it "
      "and the others those before it, and this trainer cannot continue ({}); {}",
      state_.global_step + 1, why,
      saving_.last_checkpoint().empty()
          ? "no checkpoint was saved: start the run again"
          : fmt::format("resume from the last checkpoint: resume_from_checkpoint: {}",
                        saving_.last_checkpoint()));
}

std::string Trainer::can_go_on(const std::string& why) const {
  const std::string& last = saving_.last_checkpoint();
  return fmt::format(
      "{}; the run can resume from step {} of {}; when it failed, {}", why, state_.global_step,
      steps_.max_steps,
      last.empty() ? "there was no checkpoint" : fmt::format("the newest checkpoint was {}", last));
}

void Trainer::check_usable() const {
  if (stepper_.torn()) fail(Status::invalid_argument, "{}", torn("an earlier call gave the reason"));
}

void Trainer::make_whole() {
  check_usable();
  if (stepper_.updates_done() == 0) return;
  const kernels::PathScope scope(stepper_.path());
  whole_step();
}

// Makes the next update, without the work before and after it.
void Trainer::whole_step() {
  if (!first_half()) return;
  try {
    second_half(true);
  } catch (...) {
    leave_begun();
    throw;
  }
}

void Trainer::rehearse() {
  const kernels::PathScope scope(stepper_.path());
  const tensor::Stage stage("backward");  // everything outside the other stages
  whole_step();
}

void Trainer::begin() {
  if (phase_ != Phase::waiting) return;
  saving_.begin(resumed_);
  phase_ = Phase::running;
  base::give_back_pages();
  records_.begin();
  if (!resumed_) now_.evaluation_due = arguments().eval_on_start;
  telemetry::Record about;
  if (const int64_t rows = setup_.train->rows(); rows >= 0) {
    about.set_integer("num_examples", rows);
    about.set_integer("num_train_epochs", steps_.num_train_epochs);
  }
  about.set_integer("train_batch_size", arguments().per_device_train_batch_size);
  about.set_integer("gradient_accumulation_steps", arguments().gradient_accumulation_steps);
  records_.emit(engine::EventKind::train_begin, about);
}

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

void Trainer::finish() {
  need_whole_step();
  make_whole();
  if (phase_ < Phase::finished) {
    saving_.load_best();
    phase_ = Phase::finished;
    records_.log_summary();
  }
  // Acts on the answers to the last records and to the end itself.
  if (now_.evaluation_due) evaluate();
  if (now_.save_due) save_due();
  telemetry::write_trainer_state(state_, arguments().output_dir);
  saving_.end();
  phase_ = Phase::closed;
}

bool Trainer::complete() const {
  return phase_ == Phase::closed && !(records_.stopped_by_host() && state_.global_step < steps_.max_steps);
}

// Undoes finish() after the host stopped the run.
void Trainer::reopen() {
  if (saving_.loaded_best()) {
    fail_key("load_best_model_at_end",
             "load_best_model_at_end: the run was stopped after step {} of {}, and its weights are now those "
             "of {}, from which this trainer cannot continue: create another with resume_from_checkpoint",
             state_.global_step, steps_.max_steps, state_.best_model_checkpoint);
  }
  records_.reopen();
  resumed_ = true;
  ended_ = false;
  phase_ = Phase::waiting;
}

void Trainer::save_model(const std::string& directory) {
  make_whole();
  saving_.model(directory);
}

void Trainer::save_merged(const std::string& directory) {
  make_whole();
  saving_.merged(directory);
}

void Trainer::save_checkpoint(const std::string& directory) {
  make_whole();  // before the step is in a name
  if (!directory.empty()) return write_checkpoint(directory);
  write_checkpoint(saving_.checkpoint_directory());
  saving_.rotate(true);
  telemetry::write_trainer_state(state_, arguments().output_dir);
}

void Trainer::write_checkpoint(const std::string& directory) {
  make_whole();
  saving_.checkpoint(directory, arguments().save_only_model ? base::Json() : state_json(),
                     batches_.source_state(), stops());
}

const model::Model* Trainer::teacher() const {
  RolloutMethod* const rollouts = stepper_.method().rollouts();
  return rollouts != nullptr ? rollouts->teacher() : nullptr;
}

DiskNeeds Trainer::disk_needs() const {
  return train::disk_needs(setup_, stepper_, steps_, state_.global_step);
}

void Trainer::need_disks() {
  const kernels::PathScope scope(stepper_.path());
  train::need_disks(setup_, stepper_, steps_, state_.global_step);
}

}  // namespace trl::train
