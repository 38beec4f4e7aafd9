// Counts a step, and makes its metrics.
#include <cmath>

#include "train/records/records.h"

namespace trl::train {

int64_t Records::tokens_seen(const MicroBatch& batch) const {
  using config::TokensSeen;
  const TokensSeen counted = setup_.arguments.tokens_seen;
  return counted == TokensSeen::no    ? 0
         : counted == TokensSeen::all ? batch.input_numel
                                      : batch.non_padding_tokens;
}

void Records::count(std::span<const MicroBatch> window, const Learned& learned) {
  step_means_.clear();
  step_rows_ = 0;
  for (const MicroBatch& batch : window) {
    step_rows_ += batch.rows;
    now_.num_tokens += batch.num_tokens;
    now_.means.add_known(batch.metrics);
    step_means_.add_known(batch.metrics);
    state_.num_input_tokens_seen += tokens_seen(batch);
  }
  int64_t tokens = 0;
  for (size_t i = 0; i < learned.losses.size(); ++i) {
    tokens += window[i].tokens();
    state_.total_flos += flos_per_token_ * static_cast<double>(window[i].input_numel);
  }
  shared_.add(learned.shared_tokens, tokens);
  now_.rows_since_log += step_rows_;
  now_.shared_since_log += learned.shared_tokens;
  now_.silent_since_log += learned.silent_rows;
  now_.silent_seconds += learned.silent_seconds;
  if (setup_.arguments.method->tells_step_time) {  // training_step of TRL's trainers, without the optimizer
    const MethodMetrics time = {{"step_time", learned.seconds}};
    add_values(now_.means, time);
    add_values(step_means_, time);
  }
  if (learned.omitted && !learned.skipped) ++now_.omitted_since_log;
  if (learned.skipped) {
    ++now_.skipped;
    ++now_.skipped_since_log;
    return;
  }
  now_.grad_norm = learned.norm;
  for (const float loss : learned.losses) {
    // logging_nan_inf_filter: such a loss counts as the mean so far (Trainer._inner_training_loop)
    now_.loss_since_log +=
        setup_.arguments.logging_nan_inf_filter && !std::isfinite(loss)
            ? now_.loss_since_log / static_cast<float>(1 + state_.global_step - now_.last_logged_step)
            : loss;
  }
  for (const MethodMetrics& metrics : learned.metrics) {
    add_values(now_.means, metrics);
    add_values(step_means_, metrics);
  }
}

// Trainers that write completions leave out values that are not numbers, as TRL's do.
void Records::add_values(Means& means, const MethodMetrics& metrics) const {
  if (setup_.arguments.method->generates)
    means.add_known(metrics);
  else
    means.add(metrics);
}

const telemetry::Record& Records::send_step(const Learned& learned) {
  step_ = {};
  step_.set("loss", static_cast<double>(learned.loss));
  step_.set("grad_norm", learned.norm);
  write_rates(step_);
  write_parts(step_, learned, step_means_, step_rows_);
  step_.set("num_tokens", static_cast<double>(now_.num_tokens));
  step_.set("epoch", state_.epoch);
  step_.set_integer("step", state_.global_step);
  emit(engine::EventKind::step, step_);
  return step_;
}

telemetry::Record Records::begun(std::span<const MicroBatch> window, const Learned& learned,
                                 double learning_rate) const {
  Means means;
  int64_t rows = 0;
  for (const MicroBatch& batch : window) {
    rows += batch.rows;
    means.add_known(batch.metrics);
  }
  if (!learned.skipped)
    for (const MethodMetrics& metrics : learned.metrics) add_values(means, metrics);
  telemetry::Record record;
  record.set("loss", static_cast<double>(learned.loss));
  record.set("learning_rate", learning_rate);
  write_parts(record, learned, means, rows);
  record.set_integer("step", state_.global_step + 1);
  return record;
}

// Writes the metrics that the rows of a step and their losses have.
void Records::write_parts(telemetry::Record& record, const Learned& learned, const Means& means,
                          int64_t rows) {
  if (learned.skipped || learned.omitted) record.set_integer("skipped_steps", 1);
  means.write(record, "");
  if (learned.shared_tokens > 0) record.set_integer("shared_tokens", learned.shared_tokens);
  write_silent(record, learned.silent_rows, rows, learned.silent_seconds);
}

// Writes the learning rate; of a method of episodes also under the name that TRL gives it, and the
// completions of the run so far, and of a second.
void Records::write_rates(telemetry::Record& record) const {
  record.set("learning_rate", now_.learning_rate);
  if (!setup_.arguments.method->episodes) return;
  const int64_t episodes = state_.global_step * setup_.arguments.online.generation_batch_size;
  record.set("lr", now_.learning_rate);
  record.set_integer("episode", episodes);
  if (const double passed = seconds(); passed > 0)
    record.set_integer("eps", static_cast<int64_t>(static_cast<double>(episodes) / passed));
}

// Writes the share of rows that went through no backward, and the seconds that this saved.
void Records::write_silent(telemetry::Record& record, int64_t silent, int64_t rows, double seconds) {
  if (silent == 0) return;
  record.set("silent_rows", static_cast<double>(silent) / static_cast<double>(rows));
  record.set("silent_rows_saved_runtime", telemetry::round_decimals(seconds, 4));
}

}  // namespace trl::train
