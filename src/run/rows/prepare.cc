// Preparation of the rows of each method.
#include "run/rows/prepare.h"

#include "base/error.h"
#include "config/data_arguments.h"
#include "config/trainer_generation.h"
#include "data/batch/preference_batches.h"
#include "run/open_model.h"
#include "run/rollout/prompt_stream.h"

namespace trl::run {
namespace {

// Returns the inputs that all rows of a run share.
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

data::Spool spool_of(const data::PrepareContext& context) {
  return {.directory = context.directory, .memory = context.memory};
}

// Returns the number of rows that exchange their completions; 0: no exchange. It is that of a training batch
// for evaluation rows too, as in TRL.
int64_t kl_group(const config::TrainingArguments& training) {
  return training.preference.exchanges ? training.per_device_train_batch_size : 0;
}

std::unique_ptr<Batches> batches(const config::Config& config, const config::TrainingArguments& training,
                                 const Rows& dataset, data::PrepareContext& context,
                                 const data::OrderOptions& order, const data::BatchLayout& layout) {
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

// The order of prompts that are drawn in place of others.
std::unique_ptr<PromptOrder> other_prompts(const config::TrainingArguments& training) {
  data::RepeatOptions order;
  order.num_generations = 1;
  order.seed = static_cast<uint64_t>(training.seed) + 1;
  return repeated_prompts(order, 1);
}

// Returns the tokens that a prompt may have beside a whole completion; nullopt: any number, as rows are cut
// before the model sees them, or the model names no longest sequence. Throws Error(invalid_config) if no
// prompt has room, and none may be without it.
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

// The prompts of a run, or of its evaluation.
std::shared_ptr<Prompts> prompts(const config::Config& config, const config::TrainingArguments& training,
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

std::unique_ptr<Batches> batches_of(const std::shared_ptr<Prompts>& prompts,
                                    const config::OnlineArguments& online, int64_t repeats) {
  return std::make_unique<Batches>(
      std::make_unique<PromptStream>(prompts, online.longest_completion(), online.max_length, repeats));
}

// Prepares training rows and evaluation rows of a run alike.
struct Preparing {
  Preparing(Environment& environment, const config::Config& from, const config::TrainingArguments& arguments,
            const text::Tokenizer& tokenizer, Prepared& into)
      : config(from), training(arguments), data(config::data_arguments(from)), layout(data::layout_of(data)) {
    if (data.dataset_num_proc > 0)
      into.pool = std::make_unique<base::ThreadPool>(static_cast<int>(data.dataset_num_proc));
    context = context_of(environment, training, data, tokenizer, into.pool.get());
    layout.pad_id = tokenizer.special_id(tokenizer.special().pad).value_or(-1);
  }

  std::unique_ptr<Batches> evaluation(const Rows& rows, bool may_be_empty) {
    context.packing = data.eval_packing;
    context.needs_lengths = false;
    context.may_be_empty = may_be_empty;
    context.label_weights.reset();
    return batches(config, training, rows, context, data::eval_order(training, data), layout);
  }

  const config::Config& config;
  const config::TrainingArguments& training;
  const config::DataArguments data;
  data::BatchLayout layout;
  data::PrepareContext context;
};

}  // namespace

Prepared prepare(Environment& environment, const config::Config& config,
                 const config::TrainingArguments& training, const io::ModelSource& model,
                 const text::Tokenizer& tokenizer, const Rows& train, const Rows* eval) {
  Prepared prepared;
  if (!training.online.tools.empty())
    prepared.tools = std::make_unique<const ToolTemplate>(training.online, tokenizer);
  Preparing with(environment, config, training, tokenizer, prepared);
  if (prepared.tools) with.context.tools = &prepared.tools->prompts();
  if (training.method->generates) {
    const std::optional<int64_t> room = prompt_room(config, training.online, model);
    prepared.train_prompts = prompts(config, training, train, with.context, room, false);
    prepared.train = batches_of(prepared.train_prompts, training.online, training.online.repeat_count);
    if (eval == nullptr) return prepared;
    if (!training.method->evaluates && training.online.num_sample_generations == 0) {
      fail_key("eval_dataset_name",
               "eval_dataset_name: evaluation rows are refused with method {}, which has no loss of them{}: "
               "leave them out",
               training.method->name,
               training.method->episodes ? ", and with num_sample_generations: 0, which asks for none" : "");
    }
    with.context.may_be_empty = true;
    prepared.eval_prompts = prompts(config, training, *eval, with.context, room, true);
    prepared.eval = batches_of(prepared.eval_prompts, training.online, 1);
    return prepared;
  }
  const data::OrderOptions order = data::train_order(training, with.data);
  if (training.method->rows == config::RowForm::unpaired) {
    with.context.label_weights = {training.preference.desirable_weight,
                                  training.preference.undesirable_weight};
  }
  prepared.train = with.data.streaming
                       ? batches_as_read(config, training, train, with.context, order, with.layout)
                       : batches(config, training, train, with.context, order, with.layout);
  prepared.completion_only_loss = with.context.completion_only_loss;
  if (eval != nullptr) prepared.eval = with.evaluation(*eval, true);
  return prepared;
}

Prepared prepare_evaluation(Environment& environment, const config::Config& config,
                            const config::TrainingArguments& training, const text::Tokenizer& tokenizer,
                            const Rows& rows, std::optional<bool> completion_only_loss) {
  if (training.method->generates) {
    fail_key("method",
             "method: {} evaluates completions, which only a run writes: give eval_strategy to a run, or the "
             "method of the rows",
             training.method->name);
  }
  Prepared prepared;
  Preparing with(environment, config, training, tokenizer, prepared);
  with.context.completion_only_loss = completion_only_loss;
  prepared.eval = with.evaluation(rows, false);
  return prepared;
}

}  // namespace trl::run
