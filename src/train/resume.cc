// Resumes from a checkpoint: restores the run's state beyond model and optimizer, and checks for changed
// options.
#include <ATen/Parallel.h>

#include "base/error.h"
#include "base/text/number.h"
#include "checkpoint/directory.h"
#include "tensor/threads/parallel.h"
#include "train/trainer.h"

namespace trl::train {

namespace {

using base::Json;

// Encodes a double so that it is read back bit by bit: JSON has no non-finite numbers.
Json exact(double value) { return std::isfinite(value) ? Json(value) : Json(base::format_double(value)); }

double exact(const Json& value) {
  if (!value.is_string()) return value.get<double>();
  return base::parse_double(value.get<std::string>()).value();
}

Json means_json(const Means& means) {
  Json json = Json::array();
  for (const Means::Sum& sum : means.sums())
    json.push_back({{"name", sum.name}, {"total", exact(sum.total)}, {"count", sum.count}});
  return json;
}

std::vector<Means::Sum> means_of(const Json& json) {
  std::vector<Means::Sum> sums;
  for (const Json& sum : json) sums.push_back({sum.at("name"), exact(sum.at("total")), sum.at("count")});
  return sums;
}

Json speeds_json(const std::vector<telemetry::Speed>& speeds) {
  Json json = Json::array();
  for (const telemetry::Speed& speed : speeds) json.push_back({speed.step, speed.tokens_per_second});
  return json;
}

std::vector<telemetry::Speed> speeds_of(const Json& json) {
  std::vector<telemetry::Speed> speeds;
  for (const Json& speed : json) speeds.push_back({speed.at(0), speed.at(1)});
  return speeds;
}

Json numbers_json(const std::map<std::string, double>& numbers) {
  Json json = Json::object();
  for (const auto& [name, value] : numbers) json[name] = exact(value);
  return json;
}

std::map<std::string, double> numbers_of(const Json& json) {
  std::map<std::string, double> numbers;
  for (const auto& [name, value] : json.items()) numbers[name] = exact(value);
  return numbers;
}

}  // namespace

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
  if (const std::string run = checkpoint::newest_run(directory); !run.empty()) run_ = run;
}

base::Json Trainer::run_state() const {
  return {
      {"position",
       {{"epoch", batches_.epoch()},
        {"micro_batches_done", batches_.done_in_epoch()},
        {"updates_done", updates_in_epoch_},
        {"micro_batches_per_epoch", steps_.batches_per_epoch},
        {"gradient_accumulation_steps", arguments().gradient_accumulation_steps},
        {"in_epoch", in_epoch_},
        {"evaluations", batches_.evaluations().done},
        {"evaluations_before_epochs", batches_.evaluations().before},
        {"epoch_complete", epoch_complete_}}},
      {"due", {{"log", should_log_}, {"evaluate", should_evaluate_}, {"save", should_save_}}},
      {"sums",
       {{"loss_since_log", exact(static_cast<double>(loss_since_log_))},
        {"loss_logged", exact(loss_logged_)},
        {"last_logged_step", last_logged_step_},
        {"means", means_json(means_)},
        {"training_mode", training_mode_},
        {"grad_norm", exact(grad_norm_)},
        {"learning_rate", exact(learning_rate_)},
        {"num_tokens", num_tokens_},
        {"skipped", skipped_},
        {"skipped_since_log", skipped_since_log_},
        {"shared_since_log", shared_since_log_},
        {"seconds", exact(seconds())},
        {"speeds", speeds_json(state_.speeds)}}},
      {"schedule", numbers_json(schedule_.state())},
      {"fingerprint", fingerprint()},
      {"optimizer_steps", optimizer_->steps()},
      {"begun", begun_},
  };
}

base::Json Trainer::fingerprint() const {
  Json options = Json::object();
  for (const auto& [name, value] : setup_.options) options[name] = value;
  options["runtime.threads"] = std::to_string(tensor::threads());  // the order of sums depends on the threads
  const uint64_t rows = setup_.train->fingerprint();
  return {{"options", options},
          {"rows", setup_.train->rows()},
          {"dataset", rows == 0 ? Json() : Json(fmt::format("{:016x}", rows))}};
}

void Trainer::warn_of_changes(const Json& before) const {
  constexpr const char* kEnd = "the run will differ from the one that was interrupted";
  const Json now = fingerprint();
  for (const auto& [name, value] : now.at("options").items()) {
    const Json& was = before.at("options");
    if (was.contains(name) && was.at(name) != value) {
      warn("{} is {}, the checkpoint was made with {}: {}", name, value.get<std::string>(),
           was.at(name).get<std::string>(), kEnd);
    }
  }
  if (now.at("rows") != before.at("rows")) {
    warn("the training dataset has {} {}, the checkpoint was made with {}: {}", now.at("rows").dump(),
         now.at("rows") == 1 ? "row" : "rows", before.at("rows").dump(), kEnd);
  } else if (!before.at("dataset").is_null() && now.at("dataset") != before.at("dataset")) {
    warn("the content of the training dataset is not what the checkpoint was made with: {}", kEnd);
  }
}

void Trainer::resume(const std::string& directory) { resume(checkpoint::Checkpoint(directory)); }

void Trainer::resume(const checkpoint::Checkpoint& from) {
  const std::string& directory = from.directory();
  if (begun_) fail(Status::busy, "a run that has begun cannot resume from {}", directory);
  telemetry::TrainerState state =
      telemetry::parse_trainer_state(from.trainer_state(), directory + "/trainer_state.json");
  const Json json = from.state();
  try {
    restore(from, std::move(state), json);
    warn_of_changes(json.at("fingerprint"));
  } catch (const Json::exception& error) {
    fail(Status::format, "{}/trl_state.json: cannot be understood: {}", directory, error.what());
  }
  if (setup_.log == nullptr) return;
  if (stop_) {
    setup_.log->info("checkpoint", "{} is at step {} and the run has {} steps: nothing is left to train",
                     directory, state_.global_step, steps_.max_steps);
  } else {
    setup_.log->info("checkpoint", "resuming from {}, step {} of {}", directory, state_.global_step,
                     steps_.max_steps);
  }
}

void Trainer::restore(const checkpoint::Checkpoint& from, telemetry::TrainerState state, const Json& json) {
  const Json &position = json.at("position"), &due = json.at("due"), &sums = json.at("sums");
  const std::vector<Means::Sum> means = means_of(sums.at("means"));
  const bool optimizer_kept = keeps_optimizer(from, json.at("fingerprint").at("options"));
  optimizer_->set_steps(optimizer_kept ? json.at("optimizer_steps").get<int64_t>() : 0);
  schedule_.load(numbers_of(json.at("schedule")));
  run_ = from.run();
  last_checkpoint_ = from.directory();
  state_.epoch = state.epoch;
  state_.global_step = state.global_step;
  state_.total_flos = state.total_flos;
  state_.num_input_tokens_seen = state.num_input_tokens_seen;
  state_.best_metric = state.best_metric;
  state_.best_global_step = state.best_global_step;
  state_.best_model_checkpoint = state.best_model_checkpoint;
  state_.log_history = std::move(state.log_history);

  restore_position(position);
  should_log_ = due.at("log");
  should_evaluate_ = due.at("evaluate");
  should_save_ = due.at("save");
  loss_since_log_ = static_cast<float>(exact(sums.at("loss_since_log")));
  loss_logged_ = exact(sums.at("loss_logged"));
  last_logged_step_ = sums.at("last_logged_step");
  means_.set_sums(means);
  training_mode_ = sums.at("training_mode");
  grad_norm_ = exact(sums.at("grad_norm"));
  learning_rate_ = exact(sums.at("learning_rate"));
  num_tokens_ = sums.at("num_tokens");
  skipped_ = sums.at("skipped");
  skipped_since_log_ = sums.at("skipped_since_log");
  shared_since_log_ = sums.value("shared_since_log", int64_t{0});  // earlier checkpoints lack it
  seconds_before_ = exact(sums.at("seconds"));
  state_.speeds = speeds_of(sums.value("speeds", Json::array()));
  resumed_ = json.at("begun");
  stop_ = state_.global_step >= steps_.max_steps;
  std::vector<optim::StateTensor> kept = method_->state(state_.global_step);
  if (!from.has(kept)) {
    warn(
        "{} does not contain the updated reference of sync_ref_model, so the reference starts again from its "
        "original weights",
        from.directory());
    kept.clear();
  }
  if (optimizer_kept) {
    const std::vector<optim::StateTensor> states = optimizer_->state();
    kept.insert(kept.end(), states.begin(), states.end());
  }
  from.load(*setup_.model, kept);
}

// Refuses the states of another optimizer, or of one with other optim_args if those decide which states
// exist.
bool Trainer::keeps_optimizer(const checkpoint::Checkpoint& from, const Json& before) const {
  const Json now = fingerprint().at("options");
  const auto changed = [&](const char* name) {
    return now.value(name, Json()) != before.value(name, Json());
  };
  if (!changed("optim") && !changed("optim_8bit_embeddings") &&
      (!changed("optim_args") || from.has(optimizer_->state())))
    return true;
  warn("the optimizer starts anew: its states in {} belong to optim {}, optim_args {}", from.directory(),
       before.value("optim", "null"), before.value("optim_args", "null"));
  return false;
}

// Restores the position in an epoch whose length has changed: it is counted from the steps, as Trainer does.
void Trainer::restore_position(const Json& position) {
  int64_t epoch = position.at("epoch"), done = position.at("micro_batches_done");
  batches_.set_evaluations({position.value("evaluations", int64_t{0}),
                            position.value("evaluations_before_epochs", std::vector<int64_t>())});
  updates_in_epoch_ = position.at("updates_done");
  in_epoch_ = position.at("in_epoch");
  epoch_complete_ = position.at("epoch_complete");
  const int64_t accumulation = arguments().gradient_accumulation_steps;
  if (position.at("micro_batches_per_epoch") != steps_.batches_per_epoch ||
      position.at("gradient_accumulation_steps") != accumulation) {
    epoch = state_.global_step / steps_.updates_per_epoch;
    updates_in_epoch_ = state_.global_step % steps_.updates_per_epoch;
    done = updates_in_epoch_ * accumulation;
    in_epoch_ = updates_in_epoch_ > 0;
    epoch_complete_ = false;
  }
  if (arguments().ignore_data_skip && !epoch_complete_) {
    done = updates_in_epoch_ = 0;
    in_epoch_ = false;
  }
  batches_.go_to(epoch, done);
}

}  // namespace trl::train
