#include "run/rows/context.h"

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

}  // namespace trl::run
