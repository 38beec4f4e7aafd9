// The beginning and the end of a run (trainer.py _finalize_training), and how it is saved.
#include "train/trainer/trainer.h"

#include "base/error.h"
#include "base/files/files.h"
#include "base/memory/system_memory.h"
#include "tensor/memory/rehearsal.h"
#include "train/rollout/rollouts.h"
#include "train/saving/disk_needs.h"

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
