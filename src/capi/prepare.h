// Turns a dataset handle into the batches of a run, before the trainer opens the model.
#pragma once
#include <memory>

#include "capi/batch_source.h"
#include "capi/dataset_handle.h"
#include "capi/tokenizer_handle.h"
#include "config/training_arguments.h"

namespace trl::capi {

struct Prepared {
  std::unique_ptr<base::ThreadPool> pool;  // dataset_num_proc; or null. Outlives the batches
  std::unique_ptr<Batches> train;          // null: without a run
  std::unique_ptr<Batches> eval;           // or null
};

// training: what config says.
Prepared prepare(const config::Config& config, const config::TrainingArguments& training,
                 const text::Tokenizer& tokenizer, Runtime& runtime, const Dataset& train,
                 const Dataset* eval);

// Prepares rows that are only evaluated.
Prepared prepare_evaluation(const config::Config& config, const config::TrainingArguments& training,
                            const text::Tokenizer& tokenizer, Runtime& runtime, const Dataset& rows);

}  // namespace trl::capi
