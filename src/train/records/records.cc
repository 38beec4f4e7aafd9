#include "train/records/records.h"

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

double Records::seconds() const { return now_.seconds_before + (running_ ? seconds_since(started_) : 0.0); }

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
