// Reports a run: metrics of steps, records in the log history, events to the host, and the times and sums
// that they are made from.
#pragma once
#include <chrono>

#include "telemetry/trainer_state.h"
#include "train/batches/batches.h"
#include "train/run/run_state.h"
#include "train/run/run_steps.h"
#include "train/run/setup.h"
#include "train/stepper/stepper.h"

namespace trl::train {

// Writes transformers' speed_metrics. split: "train" or "eval".
inline void write_speed(telemetry::Record& record, const std::string& split, double seconds, double samples,
                        double steps) {
  record.set(split + "_runtime", telemetry::round_decimals(seconds, 4));
  if (seconds <= 0) return;
  record.set(split + "_samples_per_second", telemetry::round_decimals(samples / seconds, 3));
  record.set(split + "_steps_per_second", telemetry::round_decimals(steps / seconds, 3));
}

class Records {
 public:
  // All arguments outlive it. It changes the sums in `now` and what is due there when the host asks for it.
  Records(const Setup& setup, const RunSteps& steps, telemetry::TrainerState& state, RunState& now);

  // Starts the clock of training, which runs from then on.
  void begin();
  bool running() const { return running_; }
  // Counts an update that is done: its window, what was learned from it.
  void count(std::span<const MicroBatch> window, const Learned& learned);
  // Returns the metrics of a step between its halves: what is known before its update.
  telemetry::Record begun(std::span<const MicroBatch> window, const Learned& learned,
                          double learning_rate) const;
  // Sends the event of that step. Returns its metrics, valid until the next step.
  const telemetry::Record& send_step(const Learned& learned);
  const telemetry::Record& step() const { return step_; }
  // Logs the training since the previous such record, if any step was made.
  void log_training();
  // Logs an evaluation that began at `start` and is not part of training's time. Returns the whole record.
  const telemetry::Record& log_evaluation(telemetry::Record record,
                                          std::chrono::steady_clock::time_point start);
  const telemetry::Record& evaluation() const { return evaluation_; }  // the last one
  // Completes the record of such an evaluation, which is not logged.
  telemetry::Record evaluated(telemetry::Record record, std::chrono::steady_clock::time_point start);
  // Logs the end of training.
  void log_summary();
  // Removes that record and everything after it: the run goes on.
  void reopen();
  // Sends an event, and notes the host's answer.
  void emit(engine::EventKind kind, const telemetry::Record& record, std::string_view path = {});
  bool stopped_by_host() const { return stopped_by_host_; }
  // Returns the seconds of training, including the time before a resume.
  double seconds() const;

 private:
  using Clock = std::chrono::steady_clock;
  void log(telemetry::Record record, bool of_training = false);
  void write_place(telemetry::Record& record, bool of_training = false) const;
  void measure_speed();  // since the previous record of training
  bool has_means() const;
  void add_values(Means& means, const MethodMetrics& metrics) const;
  void write_means(telemetry::Record& record) const;
  static void write_parts(telemetry::Record& record, const Learned& learned, const Means& means,
                          int64_t rows);
  static void write_silent(telemetry::Record& record, int64_t silent, int64_t rows, double seconds);
  void write_rates(telemetry::Record& record) const;
  int64_t tokens_seen(const MicroBatch& batch) const;

  const Setup& setup_;
  const RunSteps& steps_;
  telemetry::TrainerState& state_;
  RunState& now_;
  const double flos_per_token_;
  SharedTokens shared_;
  telemetry::Record step_, evaluation_;
  Means step_means_;  // of the last step
  int64_t step_rows_ = 0;
  bool running_ = false;
  Clock::time_point started_ = Clock::now();
  Clock::time_point marked_ = started_;  // start of the interval of the next speed record
  int64_t marked_tokens_ = 0;
  bool stopped_by_host_ = false;  // in this process, by an event's answer
  size_t summary_ = 0;            // the place of the summary in log_history
};

}  // namespace trl::train
