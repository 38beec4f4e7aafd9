// trainer_state.json: the state of a run as transformers' Trainer writes it (keys sorted, two spaces).
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "telemetry/record.h"

namespace trl::telemetry {

struct Speed {
  int64_t step;
  double tokens_per_second;  // since the previous record of training; without evaluations
};

struct TrainerState {
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
