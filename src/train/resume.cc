// Checkpoints of a run: what they hold beside model and optimizer, and going on from one.
#include "base/error.h"
#include "base/number.h"
#include "checkpoint/checkpoint.h"
#include "train/trainer.h"

namespace trl::train {

namespace {

using base::Json;

// Every double comes back bit by bit: JSON has no word for what is not finite.
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

void Trainer::save_model(const std::string& directory) {
  checkpoint::save_model(directory, *setup_.model, setup_.files, setup_.write_fault);
}

std::string Trainer::checkpoint_directory() const {
  return base::join_path(arguments().output_dir, fmt::format("checkpoint-{}", state_.global_step));
}

void Trainer::save_checkpoint(const std::string& directory) {
  checkpoint::Contents contents;
  contents.run = run_;
  contents.model = setup_.model;
  contents.files = setup_.files;
  contents.trainer_state = telemetry::trainer_state_json(state_);
  contents.state = run_state();
  contents.optimizer = optimizer_->state();
  checkpoint::save_checkpoint(directory, contents, setup_.write_fault);
}

base::Json Trainer::run_state() const {
  return {
      {"position",
       {{"epoch", batches_.epoch()},
        {"micro_batches_done", batches_.done_in_epoch()},
        {"updates_done", updates_in_epoch_},
        {"micro_batches_per_epoch", plan_.batches_per_epoch},
        {"gradient_accumulation_steps", arguments().gradient_accumulation_steps},
        {"in_epoch", in_epoch_},
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
        {"seconds", exact(seconds())}}},
      {"schedule", numbers_json(schedule_.state())},
      {"optimizer_steps", optimizer_->steps()},
      {"begun", begun_},
  };
}

void Trainer::resume(const std::string& directory) {
  if (begun_) fail(Status::busy, "a run that has begun cannot go on from {}", directory);
  const checkpoint::Checkpoint from(directory);
  telemetry::TrainerState state =
      telemetry::parse_trainer_state(from.trainer_state(), directory + "/trainer_state.json");
  try {
    restore(from, std::move(state), from.state());
  } catch (const Json::exception& error) {
    fail(Status::format, "{}/trl_state.json: cannot be understood: {}", directory, error.what());
  }
}

void Trainer::restore(const checkpoint::Checkpoint& from, telemetry::TrainerState state, const Json& json) {
  const Json position = json.at("position"), due = json.at("due"), sums = json.at("sums");
  const std::vector<Means::Sum> means = means_of(sums.at("means"));
  const int64_t optimizer_steps = json.at("optimizer_steps");
  const std::map<std::string, double> schedule = numbers_of(json.at("schedule"));
  from.load(*setup_.model, optimizer_->state());

  optimizer_->set_steps(optimizer_steps);
  schedule_.load(schedule);
  run_ = from.run();
  state_.epoch = state.epoch;
  state_.global_step = state.global_step;
  state_.total_flos = state.total_flos;
  state_.best_metric = state.best_metric;
  state_.best_global_step = state.best_global_step;
  state_.best_model_checkpoint = state.best_model_checkpoint;
  state_.log_history = std::move(state.log_history);

  batches_.go_to(position.at("epoch"), position.at("micro_batches_done"));
  updates_in_epoch_ = position.at("updates_done");
  in_epoch_ = position.at("in_epoch");
  epoch_complete_ = position.at("epoch_complete");
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
  seconds_before_ = exact(sums.at("seconds"));
  resumed_ = json.at("begun");
  stop_ = state_.global_step >= plan_.max_steps;
}

}  // namespace trl::train
