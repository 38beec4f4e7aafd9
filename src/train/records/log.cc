// The records that the log history gets: of training since the last one, of evaluations, of the end.
#include <algorithm>

#include "base/memory/system_memory.h"
#include "train/records/records.h"
#include "train/rollout/rollouts.h"

namespace trl::train {

void Records::log_training() {
  const int64_t updates = state_.global_step - now_.last_logged_step;
  now_.log_due = false;
  if (updates == 0) return;
  telemetry::Record record;
  if (const int64_t learned = updates - now_.skipped_since_log; learned > 0) {
    const double loss = static_cast<double>(now_.loss_since_log) / static_cast<double>(learned);
    const int32_t decimals = setup_.arguments.method->loss_decimals;
    record.set("loss", decimals > 0 ? telemetry::round_decimals(loss, decimals) : loss);
    record.set("grad_norm", now_.grad_norm);
  }
  write_rates(record);
  const int64_t without_update = now_.skipped_since_log + now_.omitted_since_log;
  if (without_update > 0) record.set_integer("skipped_steps", without_update);
  now_.skipped_since_log = now_.omitted_since_log = 0;
  now_.loss_logged += static_cast<double>(now_.loss_since_log);
  now_.loss_since_log = 0;
  now_.last_logged_step = state_.global_step;
  if (has_means()) {
    write_means(record);
    write_silent(record, now_.silent_since_log, now_.rows_since_log, now_.silent_seconds);
    now_.means.clear();
    now_.shared_since_log = now_.rows_since_log = now_.silent_since_log = 0;
    now_.silent_seconds = 0;
    now_.tokens_logged = now_.num_tokens;
  }
  measure_speed();
  log(std::move(record), true);
}

// SFTTrainer.log takes the metrics of the model's mode, so a record after an evaluation has none.
bool Records::has_means() const { return now_.training_mode && !now_.means.empty(); }

void Records::write_means(telemetry::Record& record) const {
  now_.means.write(record, "");
  if (now_.shared_since_log > 0) record.set_integer("shared_tokens", now_.shared_since_log);
  // Tokens that are counted when completions are written belong to the record of that step.
  const config::MethodRow& method = *setup_.arguments.method;
  if (method.tells_lengths && (!method.generates || now_.num_tokens != now_.tokens_logged))
    record.set("num_tokens", static_cast<double>(now_.num_tokens));
}

telemetry::Record Records::evaluated(telemetry::Record record, Clock::time_point start) {
  if (record.entries().front().name == "eval_loss" && setup_.arguments.method->tells_lengths)
    record.set("eval_num_tokens", static_cast<double>(now_.num_tokens));
  marked_ += Clock::now() - start;
  write_place(record);
  return record;
}

const telemetry::Record& Records::log_evaluation(telemetry::Record record, Clock::time_point start) {
  state_.log_history.push_back(evaluated(std::move(record), start));
  emit(engine::EventKind::log, state_.log_history.back());
  evaluation_ = state_.log_history.back();
  emit(engine::EventKind::evaluate, evaluation_);
  return evaluation_;
}

void Records::log_summary() {
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
  if (setup_.log != nullptr && setup_.rollouts != nullptr) setup_.rollouts->say(*setup_.log);
  state_.should_training_stop = true;
  summary_ = state_.log_history.size();
  log(std::move(record));
  emit(engine::EventKind::train_end, state_.log_history.back());
}

}  // namespace trl::train
