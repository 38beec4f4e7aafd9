#include "train/records.h"

#include <cmath>

#include "base/memory/system_memory.h"
#include "train/rollout/rollouts.h"
#include "train/run_state.h"

namespace trl::train {

namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Writes the speed of training so far.
void write_token_speed(telemetry::Record& record, double seconds, int64_t tokens) {
  record.set("train_runtime", telemetry::round_decimals(seconds, 4));
  if (seconds > 0)
    record.set("train_tokens_per_second",
               telemetry::round_decimals(static_cast<double>(tokens) / seconds, 3));
}

// Counts parameters as num_parameters(exclude_embeddings=True) does.
int64_t parameters_outside_embeddings(model::Model& model) {
  int64_t count = 0;
  for (const tensor::Parameter* p : model.all_parameters())
    if (!std::string_view(p->name).ends_with("embed_tokens.weight")) count += p->count();
  return count;
}

}  // namespace

Records::Records(const Setup& setup, const RunSteps& steps, telemetry::TrainerState& state, RunState& now)
    : setup_(setup),
      steps_(steps),
      state_(state),
      now_(now),
      flos_per_token_(6.0 * static_cast<double>(parameters_outside_embeddings(*setup.model))) {}

void Records::begin() {
  running_ = true;
  started_ = marked_ = Clock::now();
  marked_tokens_ = now_.num_tokens;
}

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
  if (learned.skipped) record.set_integer("skipped_steps", 1);
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
  if (now_.skipped_since_log > 0) record.set_integer("skipped_steps", now_.skipped_since_log);
  now_.skipped_since_log = 0;
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

void Records::write_place(telemetry::Record& record, bool of_training) const {
  if (state_.global_step == 0)
    record.set_integer("epoch", 0);
  else
    record.set("epoch", state_.epoch);
  if (setup_.arguments.tokens_seen != config::TokensSeen::no) {
    record.set_integer("num_input_tokens_seen", state_.num_input_tokens_seen);
    if (of_training) write_token_speed(record, seconds(), state_.num_input_tokens_seen);
  }
  record.set_integer("step", state_.global_step);
}

void Records::log(telemetry::Record record, bool of_training) {
  write_place(record, of_training);
  state_.log_history.push_back(record);
  emit(engine::EventKind::log, record);
}

void Records::measure_speed() {
  const double passed = seconds_since(marked_);
  const auto tokens = static_cast<double>(now_.num_tokens - marked_tokens_);
  if (passed > 0 && tokens > 0) state_.speeds.push_back({state_.global_step, tokens / passed});
  marked_ = Clock::now();
  marked_tokens_ = now_.num_tokens;
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

double Records::seconds() const { return now_.seconds_before + (running_ ? seconds_since(started_) : 0.0); }

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

void Records::reopen() {
  state_.log_history.erase(state_.log_history.begin() + static_cast<std::ptrdiff_t>(summary_));
  now_.seconds_before = seconds();
  running_ = stopped_by_host_ = state_.should_training_stop = false;
}

void Records::emit(engine::EventKind kind, const telemetry::Record& record, std::string_view path) {
  if (setup_.events == nullptr) return;
  state_.seconds = seconds();
  std::vector<engine::Metric> metrics;
  for (const telemetry::Entry& entry : record.entries()) metrics.push_back({entry.name, entry.value});
  const int32_t answer =
      setup_.events->on_event({kind, state_.global_step, steps_.max_steps, state_.epoch, metrics, path});
  if ((answer & engine::kEventStop) != 0) stopped_by_host_ = true;
  if ((answer & engine::kEventSave) != 0) now_.save_due = true;
  if ((answer & engine::kEventEvaluate) != 0) now_.evaluation_due = true;
}

}  // namespace trl::train
