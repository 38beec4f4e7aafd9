// Resumes a run from a checkpoint: restores its state beyond model and optimizer.
#include "base/error.h"
#include "checkpoint/directory.h"
#include "train/run/setup.h"
#include "train/trainer/trainer.h"

namespace trl::train {

using base::Json;

void Trainer::resume_as_configured() {
  const std::optional<std::string>& from = arguments().resume_from_checkpoint;
  if (!from) return;
  if (*from != "true" && *from != "auto") return resume(*from);
  base::NullLog none;
  const std::string& directory = arguments().output_dir;
  const std::optional<checkpoint::Checkpoint> found =
      checkpoint::newest_good(directory, setup_.log != nullptr ? *setup_.log : none);
  if (found) return resume(*found);
  if (*from == "true") checkpoint::refuse_to_resume(directory);
  if (const std::string run = checkpoint::newest_run(directory); !run.empty()) saving_.continue_run(run, "");
}

Json Trainer::state_json() const {
  RunState kept = now_;
  kept.epoch = batches_.epoch();
  kept.micro_batches_done = batches_.done_in_epoch();
  kept.micro_batches_per_epoch = steps_.batches_per_epoch;
  kept.gradient_accumulation_steps = config::micro_batches_per_step(arguments());
  kept.evaluations = batches_.evaluations().done;
  kept.evaluations_before_epochs = batches_.evaluations().before;
  kept.seconds_before = records_.seconds();
  kept.speeds = state_.speeds;
  Json json = to_json(kept);
  json["schedule"] = numbers_json(schedule_.state());
  json["fingerprint"] = fingerprint(setup_);
  json["optimizer_steps"] = stepper_.optimizer().steps();
  json["begun"] = records_.running();
  const double set_rate = begun() ? begun_->set_rate : set_rate_.load();
  if (!std::isnan(set_rate)) json["set_learning_rate"] = set_rate;
  return json;
}

void Trainer::resume(const std::string& directory) { resume(checkpoint::Checkpoint(directory)); }

void Trainer::resume(const checkpoint::Checkpoint& from) {
  const std::string& directory = from.directory();
  if (records_.running()) fail(Status::busy, "a run that has begun cannot resume from {}", directory);
  telemetry::TrainerState state =
      telemetry::parse_trainer_state(from.trainer_state(), directory + "/trainer_state.json");
  const Json json = from.state();
  try {
    restore(from, std::move(state), json);
    warn_of_changes(setup_, json.at("fingerprint"));
  } catch (const Json::exception& error) {
    fail(Status::format, "{}/trl_state.json: cannot be understood: {}", directory, error.what());
  }
  if (setup_.log == nullptr) return;
  if (const double set_rate = set_rate_.load(); !std::isnan(set_rate))
    setup_.log->info("checkpoint", "the learning rate is {:g}, which was set in place of the schedule's",
                     set_rate);
  if (ended_) {
    setup_.log->info("checkpoint", "{} is at step {} and the run has {} steps: nothing is left to train",
                     directory, state_.global_step, steps_.max_steps);
  } else {
    setup_.log->info("checkpoint", "resuming from {}, step {} of {}", directory, state_.global_step,
                     steps_.max_steps);
  }
}

void Trainer::restore(const checkpoint::Checkpoint& from, telemetry::TrainerState state, const Json& json) {
  RunState kept_state = run_state_of(json);
  optim::Optimizer& optimizer = stepper_.optimizer();
  const bool optimizer_kept = keeps_optimizer(from, json.at("fingerprint"));
  optimizer.set_steps(optimizer_kept ? json.at("optimizer_steps").get<int64_t>() : 0);
  schedule_.load(numbers_of(json.at("schedule")));
  set_rate_ = json.value("set_learning_rate", std::nan(""));
  saving_.continue_run(from.run(), from.directory());
  state_.epoch = state.epoch;
  state_.global_step = state.global_step;
  state_.total_flos = state.total_flos;
  state_.num_input_tokens_seen = state.num_input_tokens_seen;
  state_.best_metric = state.best_metric;
  state_.best_global_step = state.best_global_step;
  state_.best_model_checkpoint = state.best_model_checkpoint;
  state_.log_history = std::move(state.log_history);

  now_ = std::move(kept_state);
  now_.samples_due = now_.samples_due && samples_follow();
  state_.speeds = now_.speeds;
  restore_position(from.source_state());
  resumed_ = json.at("begun");
  ended_ = state_.global_step >= steps_.max_steps;
  std::vector<optim::StateTensor> kept = stepper_.kept(state_.global_step);
  if (!from.has(kept)) {
    warn(
        "{} does not contain the updated reference of sync_ref_model, so the reference starts again from its "
        "original weights",
        from.directory());
    kept.clear();
  }
  if (optimizer_kept) {
    const std::vector<optim::StateTensor> states = optimizer.state();
    kept.insert(kept.end(), states.begin(), states.end());
  }
  from.load(*setup_.model, kept);
}

// Refuses the states of another optimizer, or of one with other optim_args if those decide which states
// exist.
bool Trainer::keeps_optimizer(const checkpoint::Checkpoint& from, const Json& before) const {
  const auto differs = [&](const char* name) { return changed(setup_, before, name); };
  if (!differs("optim") && !differs("optim_8bit_embeddings") &&
      (!differs("optim_args") || from.has(stepper_.optimizer().state())))
    return true;
  const Json& options = before.at("options");
  warn("the optimizer starts anew: its states in {} belong to optim {}, optim_args {}", from.directory(),
       options.value("optim", "null"), options.value("optim_args", "null"));
  return false;
}

// Restores the position in an epoch whose length has changed: it is counted from the steps, as Trainer does.
// A state of the rows belongs to the position at which it was saved.
void Trainer::restore_position(std::string source_state) {
  batches_.set_evaluations({now_.evaluations, now_.evaluations_before_epochs});
  int64_t epoch = now_.epoch, done = now_.micro_batches_done;
  const int64_t accumulation = config::micro_batches_per_step(arguments());
  if (now_.micro_batches_per_epoch != steps_.batches_per_epoch ||
      now_.gradient_accumulation_steps != accumulation) {
    epoch = state_.global_step / steps_.updates_per_epoch;
    now_.updates_in_epoch = state_.global_step % steps_.updates_per_epoch;
    done = now_.updates_in_epoch * accumulation;
    now_.in_epoch = now_.updates_in_epoch > 0;
    now_.epoch_complete = false;
  }
  if (arguments().ignore_data_skip && !now_.epoch_complete) {
    done = now_.updates_in_epoch = 0;
    now_.in_epoch = false;
  }
  if (!source_state.empty() && (epoch != now_.epoch || done != now_.micro_batches_done)) {
    warn(
        "the rows start anew at epoch {}, micro-batch {}: their state in the checkpoint is that of epoch {}, "
        "micro-batch {}",
        epoch, done, now_.epoch, now_.micro_batches_done);
    source_state.clear();
  }
  batches_.go_to(epoch, done, std::move(source_state));
}

}  // namespace trl::train
