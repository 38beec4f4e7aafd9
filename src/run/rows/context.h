// The inputs that the rows of a run share while they are prepared.
#pragma once
#include "config/dataset/data_arguments.h"
#include "config/training_arguments.h"
#include "data/prepare/prepare_context.h"
#include "data/source/table.h"
#include "run/environment.h"
#include "text/tokenizer/tokenizer.h"

namespace trl::run {

// own_pool: threads of the run's own; null: those of the environment.
data::PrepareContext context_of(Environment& environment, const config::TrainingArguments& training,
                                const config::DataArguments& data, const text::Tokenizer& tokenizer,
                                base::ThreadPool* own_pool);

// Returns PrepareContext::vocab_size: rows may have ids that only the model's embedding has.
int64_t ids_of_rows(const config::Config& config, const text::Tokenizer& tokenizer);

// Returns the place where rows that can be read only once are kept.
inline data::Spool spool_of(const data::PrepareContext& context) {
  return {.directory = context.directory, .memory = context.memory};
}

}  // namespace trl::run
