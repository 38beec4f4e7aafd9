// The work after an update, and at the end of a run: records, events, evaluation, saving (trainer.py
// _maybe_log_save_evaluate, DefaultFlowCallback, _finalize_training).
#include "base/error.h"
#include "base/memory/resident.h"
#include "train/evaluation.h"
#include "train/speed.h"
#include "train/trainer.h"

namespace trl::train {

namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The speed of training so far.
void write_token_speed(telemetry::Record& record, double seconds, int64_t tokens) {
  record.set("train_runtime", telemetry::round_decimals(seconds, 4));
  if (seconds > 0)
    record.set("train_tokens_per_second",
               telemetry::round_decimals(static_cast<double>(tokens) / seconds, 3));
}

}  // namespace

void Trainer::follow_up() {
  for (;;) {
    if (should_log_) log_training();
    if (should_evaluate_) {
      const std::string& best = arguments().metric_for_best_model;
      for (const telemetry::Entry& entry : evaluate().entries()) {
        if (entry.name == (best.empty() ? "eval_loss" : best) && state_.global_step > 0)
          schedule_.evaluated(entry.value);
      }
      note_best();
    }
    if (should_save_) save_due();
    if (!in_epoch_ || !(epoch_complete_ || stop_)) return;
    end_epoch();
  }
}

// Skips a checkpoint that finds no room: the run is worth more than one of its checkpoints.
void Trainer::save_due() {
  should_save_ = false;  // before saving, because the checkpoint records it as done
  try {
    write_checkpoint(checkpoint_directory());
  } catch (const Error& error) {
    if (error.status() != Status::io) {
      should_save_ = true;
      throw;
    }
    warn(
        "checkpoint-{} was not saved, and training continues to the next one: {}; the newest checkpoint is "
        "{}",
        state_.global_step, error.message(), last_checkpoint_.empty() ? "none" : last_checkpoint_);
    return;
  } catch (...) {
    should_save_ = true;
    throw;
  }
  if (arguments().save_total_limit) rotate(*arguments().save_total_limit, true);
  emit(engine::EventKind::save, {}, checkpoint_directory());
}

// An epoch that a stop cut short is continued when the run is resumed.
void Trainer::end_epoch() {
  const bool whole = epoch_complete_;
  in_epoch_ = epoch_complete_ = false;
  if (whole) {
    updates_in_epoch_ = 0;
    batches_.next_epoch();
  }
  should_log_ = arguments().logging_strategy == config::Strategy::epoch;
  if (arguments().eval_strategy == config::Strategy::epoch && arguments().eval_delay <= state_.epoch)
    should_evaluate_ = true;
  if (arguments().save_strategy == config::Strategy::epoch) should_save_ = true;
  emit(engine::EventKind::epoch, {});
}

void Trainer::log_training() {
  const int64_t updates = state_.global_step - last_logged_step_;
  should_log_ = false;
  if (updates == 0) return;
  telemetry::Record record;
  if (const int64_t learned = updates - skipped_since_log_; learned > 0) {
    record.set("loss", static_cast<double>(loss_since_log_) / static_cast<double>(learned));
    record.set("grad_norm", grad_norm_);
  }
  record.set("learning_rate", learning_rate_);
  if (skipped_since_log_ > 0) record.set_integer("skipped_steps", skipped_since_log_);
  skipped_since_log_ = 0;
  loss_logged_ += static_cast<double>(loss_since_log_);
  loss_since_log_ = 0;
  last_logged_step_ = state_.global_step;
  if (has_means()) {
    write_means(record);
    means_.clear();
    shared_since_log_ = 0;
  }
  measure_speed();
  log(std::move(record), true);
}

// SFTTrainer.log takes the metrics of the model's mode, so a record after an evaluation has none.
bool Trainer::has_means() const { return training_mode_ && !means_.empty(); }

void Trainer::write_means(telemetry::Record& record) const {
  means_.write(record, "");
  if (shared_since_log_ > 0) record.set_integer("shared_tokens", shared_since_log_);
  record.set("num_tokens", static_cast<double>(num_tokens_));
}

void Trainer::log(telemetry::Record record, bool of_training) {
  if (state_.global_step == 0) {
    record.set_integer("epoch", 0);
  } else {
    record.set("epoch", state_.epoch);
  }
  if (arguments().tokens_seen != config::TokensSeen::no) {
    record.set_integer("num_input_tokens_seen", state_.num_input_tokens_seen);
    if (of_training) write_token_speed(record, seconds(), state_.num_input_tokens_seen);
  }
  record.set_integer("step", state_.global_step);
  state_.log_history.push_back(record);
  emit(engine::EventKind::log, record);
}

void Trainer::measure_speed() {
  const double passed = seconds_since(marked_);
  const auto tokens = static_cast<double>(num_tokens_ - marked_tokens_);
  if (passed > 0 && tokens > 0) state_.speeds.push_back({state_.global_step, tokens / passed});
  marked_ = Clock::now();
  marked_tokens_ = num_tokens_;
}

const telemetry::Record& Trainer::evaluate() {
  check_whole();
  should_evaluate_ = should_evaluate_ && setup_.eval != nullptr;
  if (setup_.eval == nullptr) fail(Status::invalid_argument, "there is no evaluation dataset");
  const kernels::PathScope scope(path());
  const Clock::time_point start = Clock::now();
  training_mode_ = false;
  telemetry::Record record =
      train::evaluate({arguments(), *method_, setup_.model->config(), share_,
                       [&](const MicroBatch& part) { return forward(part, std::nullopt); }},
                      *setup_.eval);
  batches_.count_evaluation();
  if (record.entries().front().name == "eval_loss")
    record.set("eval_num_tokens", static_cast<double>(num_tokens_));
  should_evaluate_ = false;
  marked_ += Clock::now() - start;
  log(std::move(record));
  evaluation_ = state_.log_history.back();
  emit(engine::EventKind::evaluate, evaluation_);
  return evaluation_;
}

double Trainer::seconds() const { return seconds_before_ + (begun_ ? seconds_since(started_) : 0.0); }

void Trainer::finish() {
  check_whole();
  if (!finished_) {
    load_best();
    const double steps = static_cast<double>(state_.global_step);
    const double share = steps / static_cast<double>(std::max<int64_t>(steps_.max_steps, 1));
    const double total = loss_logged_ + static_cast<double>(loss_since_log_);
    telemetry::Record record;
    write_speed(record, "train", seconds(), steps_.num_train_samples * share, steps);
    record.set("total_flos", state_.total_flos);
    record.set("train_loss", total / std::max(steps - static_cast<double>(skipped_), 0.001));
    if (has_means()) write_means(record);
    if (setup_.predicted_peak > 0) {
      record.set_integer("predicted_peak_bytes", setup_.predicted_peak);
      record.set_integer("peak_resident_bytes", base::peak_resident_bytes());
    }
    if (setup_.log != nullptr) shared_.say(*setup_.log);
    finished_ = stop_ = state_.should_training_stop = true;
    summary_ = state_.log_history.size();
    log(std::move(record));
    emit(engine::EventKind::train_end, state_.log_history.back());
  }
  // Acts on the answers to the last records and to the end itself.
  if (should_evaluate_) evaluate();
  if (should_save_) save_due();
  telemetry::write_trainer_state(state_, arguments().output_dir);
  lock_.reset();
  closed_ = true;
}

bool Trainer::complete() const {
  return closed_ && !(stopped_by_host_ && state_.global_step < steps_.max_steps);
}

// Undoes finish() after the host stopped the run.
void Trainer::reopen() {
  if (loaded_best_) {
    fail_key(
        "load_best_model_at_end",
        "load_best_model_at_end: the run was stopped after step {} of {}, and its weights are now those of "
        "{}, from which this trainer cannot continue: create another with resume_from_checkpoint",
        state_.global_step, steps_.max_steps, state_.best_model_checkpoint);
  }
  state_.log_history.erase(state_.log_history.begin() + static_cast<std::ptrdiff_t>(summary_));
  seconds_before_ = seconds();
  resumed_ = true;
  begun_ = finished_ = closed_ = stop_ = stopped_by_host_ = state_.should_training_stop = false;
}

void Trainer::emit(engine::EventKind kind, const telemetry::Record& record, std::string_view path) {
  if (setup_.events == nullptr) return;
  state_.seconds = seconds();
  std::vector<engine::Metric> metrics;
  for (const telemetry::Entry& entry : record.entries()) metrics.push_back({entry.name, entry.value});
  const int32_t answer =
      setup_.events->on_event({kind, state_.global_step, steps_.max_steps, state_.epoch, metrics, path});
  if ((answer & engine::kEventStop) != 0) stop_ = stopped_by_host_ = true;
  if ((answer & engine::kEventSave) != 0) should_save_ = true;
  if ((answer & engine::kEventEvaluate) != 0) should_evaluate_ = true;
}

}  // namespace trl::train
