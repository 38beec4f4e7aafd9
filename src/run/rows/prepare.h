// Turns a dataset handle into the batches of a run, before the trainer opens the model.
#pragma once
#include <memory>

#include "config/training_arguments.h"
#include "run/rows/batch_source.h"
#include "run/rows/rows.h"
#include "text/tokenizer/tokenizer.h"

namespace trl::run {

struct Prepared {
  std::unique_ptr<base::ThreadPool> pool;  // dataset_num_proc; or null. Outlives the batches
  std::unique_ptr<Batches> train;          // null: no run
  std::unique_ptr<Batches> eval;           // or null
};

// training: the values of config.
Prepared prepare(Environment& environment, const config::Config& config,
                 const config::TrainingArguments& training, const text::Tokenizer& tokenizer,
                 const Rows& train, const Rows* eval);

// Prepares rows that are only evaluated.
Prepared prepare_evaluation(Environment& environment, const config::Config& config,
                            const config::TrainingArguments& training, const text::Tokenizer& tokenizer,
                            const Rows& rows);

}  // namespace trl::run
