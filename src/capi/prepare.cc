// Preparation of SFT's rows.
#include "capi/prepare.h"

#include "capi/process.h"
#include "config/training_arguments.h"

namespace trl::capi {
namespace {

std::unique_ptr<data::Examples> read_examples(const config::Config& config, const Dataset& dataset,
                                              data::PrepareContext context) {
  const config::SftDataArguments arguments = config::sft_data_arguments(dataset.apply_options(config));
  context.arguments = &arguments;
  std::unique_ptr<data::Examples> examples;
  dataset.read([&](data::Source& source) { examples = data::prepare_sft(source, context); });
  return examples;
}

}  // namespace

Prepared prepare(const config::Config& config, const text::Tokenizer& tokenizer, Runtime& runtime,
                 const Dataset& train, const Dataset* eval) {
  const config::TrainingArguments training = config::training_arguments(config);
  const config::SftDataArguments arguments = config::sft_data_arguments(config);
  data::PrepareContext context;
  context.tokenizer = &tokenizer;
  context.log = runtime.log().get();
  context.pool = &runtime.pool();
  context.memory = &process().memory();
  context.seed = static_cast<uint64_t>(training.seed);
  data::OrderOptions order;
  order.batch_size = training.per_device_train_batch_size;
  order.sequential = arguments.sequential;
  order.drop_last = arguments.dataloader_drop_last;
  order.seed = static_cast<uint64_t>(training.data_seed.value_or(training.seed));

  Prepared prepared;
  auto examples = read_examples(config, train, context);
  context.completion_only_loss = examples->completion_only_loss();
  prepared.train = std::make_unique<Batches>(std::move(examples), order);
  if (eval != nullptr) {
    order.batch_size = training.per_device_eval_batch_size;
    order.sequential = true;
    prepared.eval = std::make_unique<Batches>(read_examples(config, *eval, context), order);
  }
  return prepared;
}

}  // namespace trl::capi
