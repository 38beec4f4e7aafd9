#include "run/rows/context.h"

#include <algorithm>

#include "run/open_model.h"
#include "run/training_run.h"

namespace trl::run {

data::PrepareContext context_of(Environment& environment, const config::TrainingArguments& training,
                                const config::DataArguments& data, const text::Tokenizer& tokenizer,
                                base::ThreadPool* own_pool) {
  data::PrepareContext context;
  context.tokenizer = &tokenizer;
  context.log = &environment.log();
  context.pool = own_pool != nullptr ? own_pool : &environment.pool();
  context.memory = &environment.memory();
  context.background = &environment.background();
  context.seed = static_cast<uint64_t>(training.seed);
  context.packing = data.packing;
  context.needs_lengths = data.sampling == config::Sampling::group_by_length;
  context.directory = training.output_dir;
  return context;
}

int64_t ids_of_rows(const config::Config& config, const text::Tokenizer& tokenizer) {
  if (takes_tokens_over(config)) return tokenizer.vocab_size();
  const int64_t own = adapter_embedding_rows(config);
  return std::max(own > 0 ? own : named_embedding_rows(named_model(config)), tokenizer.vocab_size());
}

}  // namespace trl::run
