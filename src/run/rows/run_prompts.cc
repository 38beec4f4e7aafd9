#include "run/rows/run_prompts.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "config/dataset/data_arguments.h"
#include "config/generation/trainer_generation.h"
#include "data/batch/batch_stream.h"
#include "run/open_model.h"
#include "run/rollout/prompt_stream.h"
#include "run/rows/context.h"

namespace trl::run {
namespace {

// Returns the order of a trainer whose generations become slices: that of training, or of an evaluation,
// which has each prompt once, in an order of its own.
std::unique_ptr<PromptOrder> repeated_order(const config::Config& config,
                                            const config::TrainingArguments& training,
                                            const config::DataArguments& arguments, bool evaluation) {
  const config::OnlineArguments& online = training.online;
  data::RepeatOptions order;
  order.num_generations = evaluation ? online.num_generations_eval : online.num_generations;
  order.prompts_per_generation_batch = evaluation ? 1 : online.prompts_per_generation;
  order.repeat_count = evaluation ? 1 : online.repeat_count;
  order.by_loader = training.method->episodes;
  order.shuffle = order.by_loader ? !evaluation && config.get("train_sampling_strategy") == "random"
                                  : evaluation || config.get_bool("shuffle_dataset");
  order.seed = static_cast<uint64_t>(training.seed);
  if (!evaluation) return repeated_prompts(order, online.generation_batch_size);
  return repeated_prompts(order, training.per_device_eval_batch_size, arguments.dataloader_drop_last);
}

// Returns the order of prompts that are drawn in place of others.
std::unique_ptr<PromptOrder> other_prompts(const config::TrainingArguments& training) {
  data::RepeatOptions order;
  order.num_generations = 1;
  order.seed = static_cast<uint64_t>(training.seed) + 1;
  return repeated_prompts(order, 1);
}

}  // namespace

std::optional<int64_t> prompt_room(const config::Config& config, const config::OnlineArguments& online,
                                   const io::ModelSource& model) {
  const int64_t positions = model.name().empty() ? 0 : named_positions(model);
  if (positions == 0 || (online.max_length && *online.max_length <= positions)) return std::nullopt;
  const int64_t longest = online.longest_completion();
  if (longest >= positions && config.get("long_prompts") != "count") {
    fail_key(config::length_key(config),
             "{}: a completion of {} tokens leaves no prompt any room in the {} positions of the model, and "
             "long_prompts is {}: give fewer tokens",
             config::length_key(config), longest, positions, config.get("long_prompts"));
  }
  return std::max<int64_t>(0, positions - longest);
}

std::shared_ptr<Prompts> run_prompts(const config::Config& config, const config::TrainingArguments& training,
                                     const Rows& dataset, data::PrepareContext& context,
                                     std::optional<int64_t> room, bool evaluation) {
  config::DataArguments arguments = config::data_arguments(dataset.apply_options(config));
  if (arguments.streaming) {
    fail_key(
        "dataset_streaming",
        "dataset_streaming: true is refused with method {}, whose prompts come in an order over all rows: "
        "leave it out",
        training.method->name);
  }
  arguments.shuffle_dataset = false;  // prompts change their order from epoch to epoch instead
  arguments.chat_template_kwargs = training.online.chat_template_kwargs;
  arguments.prompt_room = room;
  context.arguments = &arguments;
  auto order = config.has("shuffle_rollouts")
                   ? repeated_order(config, training, arguments, evaluation)
                   : sampled_prompts(evaluation ? data::eval_order(training, arguments)
                                                : data::train_order(training, arguments),
                                     training.online.num_generations);
  const bool whole = training.method->rows == config::RowForm::conversations;
  const auto list = whole ? data::prepare_conversations : data::prepare_prompts;
  return std::make_shared<Prompts>(
      list(dataset.table(spool_of(context)), context), std::move(order),
      training.online.resample_zero_std && !evaluation ? other_prompts(training) : nullptr);
}

std::unique_ptr<Batches> batches_of_prompts(const std::shared_ptr<Prompts>& prompts,
                                            const config::OnlineArguments& online, int64_t repeats) {
  return std::make_unique<Batches>(
      std::make_unique<PromptStream>(prompts, online.longest_completion(), online.max_length, repeats));
}

}  // namespace trl::run
