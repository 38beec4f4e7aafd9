// Saves during a run: checkpoints, how many of them are kept, and which is the best (trainer.py
// _save_checkpoint, _determine_best_metric, _load_best_model).
#include "base/error.h"
#include "checkpoint/directory.h"
#include "checkpoint/save_adapter.h"
#include "train/trainer.h"

namespace trl::train {

void Trainer::save_model(const std::string& given) {
  check_whole();
  const std::string& directory = given.empty() ? arguments().output_dir : given;
  if (const model::Adapter* const adapter = setup_.model->adapters().trained())
    return checkpoint::save_adapter(directory, *adapter, setup_.files, run_tags(), setup_.write_fault);
  write_model(directory);
}

// Returns the tags that TRL gives the models of its trainers.
std::vector<std::string_view> Trainer::run_tags() const { return {arguments().method->tag, "trl"}; }

void Trainer::save_merged(const std::string& given) {
  check_whole();
  model::Adapters& adapters = setup_.model->adapters();
  if (adapters.trained() == nullptr) {
    fail_key("save.kind",
             "save.kind: merged needs an adapter, and this run trains the model itself: give model");
  }
  const std::shared_ptr<void> merged = adapters.merged_to_save(*adapters.trained());
  write_model(given.empty() ? arguments().output_dir : given);
}

void Trainer::write_model(const std::string& directory) {
  const bool gguf = arguments().save_format == config::SaveFormat::gguf;
  const std::vector<std::string_view> tags = run_tags();
  std::string card;
  const std::vector<engine::NamedBytes> files = checkpoint::with_card(
      directory, *setup_.model, setup_.model_path,
      gguf ? std::span<const engine::NamedBytes>() : std::span(std::as_const(setup_.files)), tags, gguf,
      card);
  if (!gguf)
    return checkpoint::save_model(directory, *setup_.model, files, setup_.write_fault,
                                  arguments().max_shard_bytes);
  checkpoint::save_gguf(directory, *setup_.model, {arguments().save_gguf_type, setup_.vocabulary, files},
                        setup_.log, setup_.write_fault);
}

std::string Trainer::checkpoint_directory() const {
  return base::join_path(arguments().output_dir, checkpoint::checkpoint_name(state_.global_step));
}

void Trainer::save_checkpoint(const std::string& directory) {
  if (!directory.empty()) return write_checkpoint(directory);
  write_checkpoint(checkpoint_directory());
  if (arguments().save_total_limit) rotate(*arguments().save_total_limit, true);
  telemetry::write_trainer_state(state_, arguments().output_dir);
}

void Trainer::write_checkpoint(const std::string& directory) {
  check_whole();
  telemetry::TrainerState state = state_;
  state.should_save = true;  // as Trainer's control has it during a save
  state.should_training_stop = stop_;
  if (state.best_global_step > 0) {
    const std::string best =
        base::join_path(arguments().output_dir, checkpoint::checkpoint_name(state.best_global_step));
    if (best == directory || base::is_directory(best)) state.best_model_checkpoint = best;
  }
  checkpoint::Contents contents;
  contents.run = run_;
  contents.model = setup_.model;
  contents.files = setup_.files;
  contents.tags = run_tags();
  contents.max_shard_bytes = arguments().max_shard_bytes;
  contents.trainer_state = telemetry::trainer_state_json(state);
  contents.resumable = !arguments().save_only_model;
  if (contents.resumable) {
    contents.state = state_json();
    contents.optimizer = optimizer_->state();
    const std::vector<optim::StateTensor> of_method = method_->state(state_.global_step);
    contents.optimizer.insert(contents.optimizer.end(), of_method.begin(), of_method.end());
  }
  checkpoint::save_checkpoint(directory, contents, setup_.write_fault);
  state_.best_model_checkpoint = state.best_model_checkpoint;
  if (contents.resumable) last_checkpoint_ = directory;
}

// Removes old checkpoints after one is saved: a failure to remove one does not stop the run.
void Trainer::rotate(int64_t limit, bool keep_newest) {
  try {
    checkpoint::rotate(arguments().output_dir, run_, limit, base::file_name(state_.best_model_checkpoint),
                       keep_newest);
  } catch (const Error& error) {
    warn("save_total_limit: {}", error.message());
  }
}

void Trainer::note_best() {
  const std::string& metric = arguments().metric_for_best_model;
  if (metric.empty() || state_.global_step == 0) return;
  std::vector<std::string_view> names;
  const telemetry::Entry* found = nullptr;
  for (const telemetry::Entry& entry : evaluation_.entries()) {
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
  if (!better || std::isnan(value)) return;
  state_.best_metric = value;
  if (arguments().save_strategy != config::Strategy::no) state_.best_global_step = state_.global_step;
  if (arguments().save_strategy == config::Strategy::best) now_.save_due = true;
}

void Trainer::load_best() {
  if (!arguments().load_best_model_at_end || state_.best_model_checkpoint.empty()) return;
  const std::string name = base::file_name(state_.best_model_checkpoint);
  loaded_best_ = name != checkpoint::checkpoint_name(state_.global_step);
  checkpoint::Checkpoint(base::join_path(arguments().output_dir, name)).load_model(*setup_.model);
  if (arguments().save_total_limit == 1) rotate(1, false);
}

}  // namespace trl::train
