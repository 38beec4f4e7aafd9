// The size of the largest micro-batch of a run, and the length of the run.
#pragma once
#include <cstdint>
#include <optional>

#include "config/training_arguments.h"
#include "run/rows/batch_source.h"
#include "run/rows/rows.h"
#include "run/tokenizer.h"

namespace trl::run {

struct RunSize {
  int64_t rows = 0, longest = 0;  // of a micro-batch; each row as long as the longest
  bool allowed = false;      // longest is the length that max_length allows, not the length of a known row
  int64_t eval_longest = 0;  // of evaluation; 0: as in training
  int64_t steps = 0;         // 0: not known
  double tokens = 0;         // of all steps; 0: not known
  double epoch_tokens = 0;   // of all rows, once; 0: not known
  // Batches of an epoch (-1: streaming; 0: not known), which say how much the run writes to its disks;
  // nullopt: its steps say it.
  std::optional<int64_t> batches = {};
};

// Returns the tokens of a row that max_length allows; nullopt: any number, or the method writes the
// rest of its rows.
std::optional<int64_t> row_limit(const config::Config& config);

// Returns the size for rows that have not been read: each is as long as max_length allows. training, here and
// below: the values of config.
RunSize largest_batch(const config::Config& config, const config::TrainingArguments& training);

// Returns the size for the rows of a run; waits for all of them if max_length is null. evaluation: nullable.
// Error(invalid_config): their lengths are not known.
RunSize largest_batch(const config::Config& config, const config::TrainingArguments& training, Batches& rows,
                      Batches* evaluation);

// Returns the same with the actual lengths of the rows, whatever max_length allows; nullopt: not known, since
// they are streamed. Waits for all of them.
std::optional<RunSize> size_of_rows(const config::Config& config, const config::TrainingArguments& training,
                                    Batches& rows, Batches* evaluation);

// Reads all rows. They are never padded here, whatever the layout.
RunSize measured_size(const config::Config& config, const config::TrainingArguments& training,
                      const Rows& rows, const Tokenizer& tokenizer);

// Does the same for methods whose rows have several sequences: prepares all rows as the run does. tokenizer:
// the run's.
RunSize prepared_size(const config::Config& config, const config::TrainingArguments& training,
                      const Rows& rows, const Tokenizer& tokenizer);

}  // namespace trl::run
