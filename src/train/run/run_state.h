// The values of a run that a checkpoint keeps in addition to weights, optimizer, schedule and
// trainer_state.json: plain values, and one list of them (run_state.cc) for writing and reading.
#pragma once
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "base/json/json.h"
#include "telemetry/trainer_state.h"
#include "train/method.h"

namespace trl::train {

// Unweighted means of the values that micro-batches reported since the last log, by name, in the order of
// first report.
class Means {
 public:
  void add(const MethodMetrics& metrics) { add_all(metrics); }
  // The same, but a value that is not a number counts as none; the mean of no values is none.
  void add_known(const MethodMetrics& metrics) { add_all_known(metrics); }
  void add_known(const std::vector<std::pair<std::string, double>>& metrics) { add_all_known(metrics); }
  bool empty() const { return sums_.empty(); }
  void clear() { sums_.clear(); }
  void write(telemetry::Record& record, std::string_view prefix) const;

  struct Sum {
    std::string name;
    double total = 0;
    int64_t count = 0;
  };
  const std::vector<Sum>& sums() const { return sums_; }
  void set_sums(std::vector<Sum> sums) { sums_ = std::move(sums); }

 private:
  template <typename Metrics>
  void add_all(const Metrics& metrics) {
    for (const auto& [name, value] : metrics) add(name, value, 1);
  }
  template <typename Metrics>
  void add_all_known(const Metrics& metrics) {
    for (const auto& [name, value] : metrics) std::isnan(value) ? add(name, 0, 0) : add(name, value, 1);
  }
  void add(std::string_view name, double total, int64_t count);

  std::vector<Sum> sums_;
};

struct RunState {
  // The position: the first three are those of Batches when it is written.
  int64_t epoch = 0, micro_batches_done = 0;
  int64_t evaluations = 0;
  std::vector<int64_t> evaluations_before_epochs = {};
  // Numbers of the run that wrote it; the second: micro-batches of a step.
  int64_t micro_batches_per_epoch = 0, gradient_accumulation_steps = 0;
  int64_t updates_in_epoch = 0;
  bool in_epoch = false;  // an update was made since the last end of an epoch
  bool epoch_complete = false;

  // Work after an update that is not done yet.
  bool samples_due = false, log_due = false, evaluation_due = false, save_due = false;

  float loss_since_log = 0;  // float32 sums, as Trainer keeps them
  double loss_logged = 0;
  int64_t last_logged_step = 0;
  Means means;                 // of training, since the last log
  bool training_mode = false;  // model.training as in transformers: false directly after an evaluation
  double grad_norm = 0;
  double learning_rate = 0;
  int64_t num_tokens = 0;
  int64_t tokens_logged = 0;      // of them, at the last log
  int64_t skipped = 0;            // updates that on_nonfinite skip left out
  int64_t skipped_since_log = 0;  // of them, since the last log
  int64_t omitted_since_log = 0;  // updates that the host left out
  int64_t shared_since_log = 0;   // tokens
  int64_t rows_since_log = 0;
  int64_t silent_since_log = 0;  // of them, rows without a backward
  double silent_seconds = 0;     // that these saved, since the last log
  double seconds_before = 0;     // of training, before this process
  std::vector<telemetry::Speed> speeds = {};
};

// Numbers are read back bit by bit: JSON has no non-finite ones.
base::Json to_json(const RunState& state);
// Throws Json::exception if a value is missing that earlier checkpoints have too.
RunState run_state_of(const base::Json& json);

// The same for other numbers of a checkpoint.
base::Json numbers_json(const std::map<std::string, double>& numbers);
std::map<std::string, double> numbers_of(const base::Json& json);

}  // namespace trl::train
