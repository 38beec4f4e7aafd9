#include "run/rows/target_batches.h"

#include <utility>

#include "config/dataset/data_arguments.h"
#include "data/batch/preference_batches.h"
#include "run/rows/context.h"

namespace trl::run {
namespace {

// Returns the number of rows that exchange their completions; 0: no exchange. It is that of a training batch
// for evaluation rows too, as in TRL.
int64_t kl_group(const config::TrainingArguments& training) {
  return training.preference.exchanges ? training.per_device_train_batch_size : 0;
}

data::StreamedRows streamed_rows(const config::TrainingArguments& training,
                                 const config::DataArguments& arguments, const data::BatchLayout& layout) {
  const data::Truncation truncation{arguments.max_length, arguments.truncation_keep_end};
  switch (training.method->rows) {
    case config::RowForm::pairs:
      return data::streamed_pairs(data::dpo_kind, layout, truncation);
    case config::RowForm::whole_pairs:
      return data::streamed_pairs(data::reward_kind, layout, truncation);
    case config::RowForm::unpaired:
      return data::streamed_unpaired(layout, {arguments.max_length}, kl_group(training) > 0);
    case config::RowForm::prompts:
    case config::RowForm::conversations:
    case config::RowForm::text:
      break;
  }
  return data::streamed_sft(layout);
}

}  // namespace

std::unique_ptr<Batches> prepared_batches(const config::Config& config,
                                          const config::TrainingArguments& training, const Rows& dataset,
                                          data::PrepareContext& context, const data::OrderOptions& order,
                                          const data::BatchLayout& layout) {
  const config::DataArguments arguments = config::data_arguments(dataset.apply_options(config));
  context.arguments = &arguments;
  const auto table = dataset.table(spool_of(context));
  const auto pairs = [&](decltype(data::prepare_dpo)& prepare) {
    return std::make_unique<Batches>(data::batches_of_pairs(
        prepare(table, context), order, layout, {arguments.max_length, arguments.truncation_keep_end}));
  };
  switch (training.method->rows) {
    case config::RowForm::pairs:
      return pairs(data::prepare_dpo);
    case config::RowForm::whole_pairs:
      return pairs(data::prepare_reward);
    case config::RowForm::unpaired:
      return std::make_unique<Batches>(data::batches_of_unpaired(
          data::prepare_kto(table, context), order, layout, {arguments.max_length}, kl_group(training)));
    case config::RowForm::prompts:
    case config::RowForm::conversations:
    case config::RowForm::text:
      break;
  }
  auto examples = data::prepare_sft(table, context);
  context.completion_only_loss = examples->completion_only_loss();
  return std::make_unique<Batches>(data::batches_in_order(std::move(examples), order, layout));
}

std::unique_ptr<Batches> batches_as_read(const config::Config& config,
                                         const config::TrainingArguments& training, const Rows& dataset,
                                         data::PrepareContext& context, const data::OrderOptions& order,
                                         const data::BatchLayout& layout) {
  const config::DataArguments arguments = config::data_arguments(dataset.apply_options(config));
  context.arguments = &arguments;
  return std::make_unique<Batches>(data::batches_as_read(dataset.shards(spool_of(context)), context,
                                                         order.batch_size,
                                                         streamed_rows(training, arguments, layout)));
}

}  // namespace trl::run
