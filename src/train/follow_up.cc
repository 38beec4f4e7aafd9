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
    if (now_.log_due) log_training();
    if (now_.evaluation_due) {
      const std::string& best = arguments().metric_for_best_model;
      for (const telemetry::Entry& entry : evaluate().entries()) {
        if (entry.name == (best.empty() ? "eval_loss" : best) && state_.global_step > 0)
          schedule_.evaluated(entry.value);
      }
      note_best();
    }
    if (now_.save_due) save_due();
    if (!now_.in_epoch || !(now_.epoch_complete || stop_)) return;
    end_epoch();
  }
}

// Skips a checkpoint that finds no room: the run is worth more than one of its checkpoints.
void Trainer::save_due() {
  now_.save_due = false;  // before saving, because the checkpoint records it as done
  try {
    write_checkpoint(checkpoint_directory());
  } catch (const Error& error) {
    if (error.status() != Status::io) {
      now_.save_due = true;
      throw;
    }
    warn(
        "checkpoint-{} was not saved, and training continues to the next one: {}; the newest checkpoint is "
        "{}",
        state_.global_step, error.message(), last_checkpoint_.empty() ? "none" : last_checkpoint_);
    return;
  } catch (...) {
    now_.save_due = true;
    throw;
  }
  if (arguments().save_total_limit) rotate(*arguments().save_total_limit, true);
  emit(engine::EventKind::save, {}, checkpoint_directory());
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
  emit(engine::EventKind::epoch, {});
}

void Trainer::log_training() {
  const int64_t updates = state_.global_step - now_.last_logged_step;
  now_.log_due = false;
  if (updates == 0) return;
  telemetry::Record record;
  if (const int64_t learned = updates - now_.skipped_since_log; learned > 0) {
    record.set("loss", static_cast<double>(now_.loss_since_log) / static_cast<double>(learned));
    record.set("grad_norm", now_.grad_norm);
  }
  record.set("learning_rate", now_.learning_rate);
  if (now_.skipped_since_log > 0) record.set_integer("skipped_steps", now_.skipped_since_log);
  now_.skipped_since_log = 0;
  now_.loss_logged += static_cast<double>(now_.loss_since_log);
  now_.loss_since_log = 0;
  now_.last_logged_step = state_.global_step;
  if (has_means()) {
    write_means(record);
    now_.means.clear();
    now_.shared_since_log = 0;
  }
  measure_speed();
  log(std::move(record), true);
}

// SFTTrainer.log takes the metrics of the model's mode, so a record after an evaluation has none.
bool Trainer::has_means() const { return now_.training_mode && !now_.means.empty(); }

void Trainer::write_means(telemetry::Record& record) const {
  now_.means.write(record, "");
  if (now_.shared_since_log > 0) record.set_integer("shared_tokens", now_.shared_since_log);
  record.set("num_tokens", static_cast<double>(now_.num_tokens));
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
  const auto tokens = static_cast<double>(now_.num_tokens - marked_tokens_);
  if (passed > 0 && tokens > 0) state_.speeds.push_back({state_.global_step, tokens / passed});
  marked_ = Clock::now();
  marked_tokens_ = now_.num_tokens;
}

const telemetry::Record& Trainer::evaluate() {
  check_whole();
  now_.evaluation_due = now_.evaluation_due && setup_.eval != nullptr;
  if (setup_.eval == nullptr) fail(Status::invalid_argument, "there is no evaluation dataset");
  const kernels::PathScope scope(path());
  const Clock::time_point start = Clock::now();
  now_.training_mode = false;
  telemetry::Record record =
      train::evaluate({arguments(), *method_, setup_.model->config(), share_,
                       [&](const MicroBatch& part) { return forward(part, std::nullopt); }},
                      *setup_.eval);
  batches_.count_evaluation();
  if (record.entries().front().name == "eval_loss")
    record.set("eval_num_tokens", static_cast<double>(now_.num_tokens));
  now_.evaluation_due = false;
  marked_ += Clock::now() - start;
  log(std::move(record));
  evaluation_ = state_.log_history.back();
  emit(engine::EventKind::evaluate, evaluation_);
  return evaluation_;
}

double Trainer::seconds() const { return now_.seconds_before + (begun_ ? seconds_since(started_) : 0.0); }

void Trainer::finish() {
  check_whole();
  if (!finished_) {
    load_best();
    const double steps = static_cast<double>(state_.global_step);
    const double share = steps / static_cast<double>(std::max<int64_t>(steps_.max_steps, 1));
    const double total = now_.loss_logged + static_cast<double>(now_.loss_since_log);
    telemetry::Record record;
    write_speed(record, "train", seconds(), steps_.num_train_samples * share, steps);
    record.set("total_flos", state_.total_flos);
    record.set("train_loss", total / std::max(steps - static_cast<double>(now_.skipped), 0.001));
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
  if (now_.evaluation_due) evaluate();
  if (now_.save_due) save_due();
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
  now_.seconds_before = seconds();
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
  if ((answer & engine::kEventSave) != 0) now_.save_due = true;
  if ((answer & engine::kEventEvaluate) != 0) now_.evaluation_due = true;
}

}  // namespace trl::train
