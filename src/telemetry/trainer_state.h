// trainer_state.json: the state of a run as transformers' Trainer writes it (keys sorted, two spaces).
#pragma once
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trl::telemetry {

struct Entry {
  std::string name;
  double value = 0;
  bool integer = false;  // written without ".0"
  bool none = false;     // written as null, although a value that is not a number is NaN
};

// A metric record: names with numbers, in the order in which they were set. One record is one entry of
// log_history. Numbers are written as Python's json writes them, because trainer_state.json is read by
// Python. Copies share the entries until one of them is changed.
class Record {
 public:
  void set(std::string_view name, double value) { put({std::string(name), value}); }
  void set_integer(std::string_view name, int64_t value) {
    put({std::string(name), static_cast<double>(value), true});
  }
  void set_none(std::string_view name) { put({std::string(name), std::nan(""), false, true}); }
  const std::vector<Entry>& entries() const;
  bool shares_entries(const Record& other) const { return entries_ == other.entries_; }

 private:
  void put(Entry entry);
  std::shared_ptr<std::vector<Entry>> entries_;  // null: none
};

// Formats as repr(): 2e-05, 1.0, 1e+16; NaN, Infinity, -Infinity as in json.dumps.
std::string python_float(double value);
std::string to_text(const Entry& entry);
double round_decimals(double value, int decimals);  // Python's round() for the few decimals of timings

struct Speed {
  int64_t step;
  double tokens_per_second;  // since the previous record of training; without evaluations
};

struct Progress {
  double epoch = 0;
  int64_t global_step = 0;
  int64_t max_steps = 0;
  int64_t logging_steps = 500;  // absolute, ratios resolved
  int64_t eval_steps = 500;
  int64_t save_steps = 500;
  int64_t num_train_epochs = 0;
  int64_t train_batch_size = 0;
  double total_flos = 0;
  int64_t num_input_tokens_seen = 0;
  bool should_save = false;
  bool should_training_stop = false;
  std::optional<double> best_metric;
  int64_t best_global_step = 0;       // 0: none
  std::string best_model_checkpoint;  // empty: no checkpoint
};

struct TrainerState : Progress {
  std::vector<Record> log_history;
  // Seconds of the whole run, including the time before a resume. Not in trainer_state.json, which
  // transformers reads.
  double seconds = 0;
  std::vector<Speed> speeds;
};

std::string trainer_state_json(const TrainerState& state);
// Parses the state that a run continues with: epoch, step, total_flos, num_input_tokens_seen, the best
// evaluation and the records. origin: for messages. Throws Error(format).
TrainerState parse_trainer_state(std::string_view text, std::string_view origin);
// Replaces <directory>/trainer_state.json; makes the directory.
void write_trainer_state(const TrainerState& state, const std::string& directory);

}  // namespace trl::telemetry
