// Checkpoints and the best of them follow trainer.py's _save_checkpoint, _determine_best_metric and
// _load_best_model.
#include "train/saving/saving.h"

#include <cmath>
#include <random>

#include "base/error.h"
#include "checkpoint/directory.h"
#include "checkpoint/save.h"

namespace trl::train {

namespace {

// Returns 64 random bits, which distinguish two runs in one directory.
std::string new_run() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}", device(), device());
}

// Says how checkpoints of another run are treated.
checkpoint::Others others(const config::TrainingArguments& arguments, bool resumed) {
  if (arguments.save_strategy == config::Strategy::no) return checkpoint::Others::keep;
  return arguments.overwrite_output_dir && !resumed ? checkpoint::Others::remove : checkpoint::Others::refuse;
}

}  // namespace

void check_output(const config::TrainingArguments& arguments, bool saves_model) {
  if (saves_model) checkpoint::refuse_beside_adapter(arguments.output_dir, "output_dir");
  checkpoint::check_directory(arguments.output_dir, arguments.resume_from_checkpoint,
                              others(arguments, false));
}

Saving::Saving(const Setup& setup, const Stepper& stepper, telemetry::TrainerState& state)
    : setup_(setup), stepper_(stepper), state_(state), run_(new_run()) {}

void Saving::begin(bool resumed) {
  if (arguments().save_strategy != config::Strategy::no) base::make_directories(arguments().output_dir);
  lock_ = checkpoint::lock_directory(arguments().output_dir);
  checkpoint::prepare_directory(arguments().output_dir, run_, others(arguments(), resumed));
}

void Saving::continue_run(const std::string& run, const std::string& directory) {
  run_ = run;
  last_ = directory;
}

void Saving::model(const std::string& given) const {
  const std::string& directory = given.empty() ? arguments().output_dir : given;
  if (const model::Adapter* const adapter = setup_.model->adapters().trained())
    return checkpoint::save_adapter(directory, *adapter, setup_.files, tags(), setup_.write_fault);
  write_model(directory);
}

// Returns the tags that TRL gives the models of its trainers.
std::vector<std::string_view> Saving::tags() const { return {arguments().method->tag, "trl"}; }

void Saving::merged(const std::string& given) const {
  model::Adapters& adapters = setup_.model->adapters();
  if (adapters.trained() == nullptr) {
    fail_key("save.kind",
             "save.kind: merged needs an adapter, and this run trains the model itself: give model");
  }
  const std::shared_ptr<void> merged = adapters.merged_to_save(*adapters.trained());
  write_model(given.empty() ? arguments().output_dir : given);
}

void Saving::write_model(const std::string& directory) const {
  const bool gguf = arguments().save_format == config::SaveFormat::gguf;
  std::string card;
  const std::vector<engine::NamedBytes> files = checkpoint::with_card(
      directory, *setup_.model, setup_.source.name(),
      gguf ? std::span<const engine::NamedBytes>() : std::span(setup_.files), tags(), gguf, card);
  if (!gguf)
    return checkpoint::save_model(directory, *setup_.model, files, setup_.write_fault,
                                  arguments().max_shard_bytes);
  checkpoint::save_gguf(directory, *setup_.model, {arguments().save_gguf_type, setup_.vocabulary, files},
                        setup_.log, setup_.write_fault);
}

std::string Saving::checkpoint_directory() const {
  return base::join_path(arguments().output_dir, checkpoint::checkpoint_name(state_.global_step));
}

void Saving::checkpoint(const std::string& directory, const base::Json& json, const std::string& source,
                        bool stopping) {
  telemetry::TrainerState state = state_;
  state.should_save = true;  // as Trainer's control has it during a save
  state.should_training_stop = stopping;
  if (state.best_global_step > 0) {
    const std::string best =
        base::join_path(arguments().output_dir, checkpoint::checkpoint_name(state.best_global_step));
    if (best == directory || base::is_directory(best)) state.best_model_checkpoint = best;
  }
  checkpoint::Contents contents;
  contents.run = run_;
  contents.model = setup_.model;
  std::vector<engine::NamedBytes> files(setup_.files.begin(), setup_.files.end());
  const auto own = stepper_.method().checkpoint_files();
  for (const auto& [name, bytes] : own) files.push_back({name, bytes});
  contents.files = files;
  contents.tags = tags();
  contents.max_shard_bytes = arguments().max_shard_bytes;
  contents.trainer_state = telemetry::trainer_state_json(state);
  contents.resumable = !arguments().save_only_model;
  if (contents.resumable) {
    contents.state = json;
    contents.source_state = source;
    contents.optimizer = stepper_.optimizer().state();
    const std::vector<optim::StateTensor> kept = stepper_.kept(state_.global_step);
    contents.optimizer.insert(contents.optimizer.end(), kept.begin(), kept.end());
  }
  checkpoint::save_checkpoint(directory, contents, setup_.write_fault);
  state_.best_model_checkpoint = state.best_model_checkpoint;
  if (contents.resumable) last_ = directory;
}

void Saving::rotate(bool keep_newest) {
  if (!arguments().save_total_limit) return;
  try {
    checkpoint::rotate(arguments().output_dir, run_, *arguments().save_total_limit,
                       base::file_name(state_.best_model_checkpoint), keep_newest);
  } catch (const Error& error) {
    if (setup_.log != nullptr) setup_.log->warning("checkpoint", "save_total_limit: {}", error.message());
  }
}

bool Saving::note_best(const telemetry::Record& evaluation) {
  const std::string& metric = arguments().metric_for_best_model;
  if (metric.empty() || state_.global_step == 0) return false;
  std::vector<std::string_view> names;
  const telemetry::Entry* found = nullptr;
  for (const telemetry::Entry& entry : evaluation.entries()) {
    names.push_back(entry.name);
    if (entry.name == metric) found = &entry;
  }
  if (found == nullptr) {
    fail_key("metric_for_best_model", "metric_for_best_model: the evaluation has no {}; it has {}", metric,
             fmt::join(names, ", "));
  }
  const double value = found->value;
  const bool better = !state_.best_metric || (arguments().greater_is_better ? value > *state_.best_metric
                                                                            : value < *state_.best_metric);
  if (!better || std::isnan(value)) return false;
  state_.best_metric = value;
  if (arguments().save_strategy != config::Strategy::no) state_.best_global_step = state_.global_step;
  return true;
}

void Saving::load_best() {
  if (!arguments().load_best_model_at_end || state_.best_model_checkpoint.empty()) return;
  const std::string name = base::file_name(state_.best_model_checkpoint);
  loaded_best_ = name != checkpoint::checkpoint_name(state_.global_step);
  checkpoint::Checkpoint(base::join_path(arguments().output_dir, name)).load_model(*setup_.model);
  if (arguments().save_total_limit == 1) rotate(false);
}

}  // namespace trl::train
