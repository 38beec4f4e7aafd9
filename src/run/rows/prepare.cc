#include "run/rows/prepare.h"

#include "base/error.h"
#include "data/batch/batch_stream.h"
#include "run/rows/context.h"
#include "run/rows/run_prompts.h"
#include "run/rows/target_batches.h"

namespace trl::run {
namespace {

// Prepares training rows and evaluation rows of a run alike.
struct Preparing {
  Preparing(Environment& environment, const config::Config& from, const config::TrainingArguments& arguments,
            const text::Tokenizer& tokenizer, Prepared& into)
      : config(from), training(arguments), data(config::data_arguments(from)), layout(data::layout_of(data)) {
    if (data.dataset_num_proc > 0)
      into.pool = std::make_unique<base::ThreadPool>(static_cast<int>(data.dataset_num_proc));
    context = context_of(environment, training, data, tokenizer, into.pool.get());
    context.vocab_size = ids_of_rows(config, tokenizer);
    layout.pad_id = tokenizer.special_id(tokenizer.special().pad).value_or(-1);
  }

  std::unique_ptr<Batches> evaluation(const Rows& rows, bool may_be_empty) {
    context.packing = data.eval_packing;
    context.needs_lengths = false;
    context.may_be_empty = may_be_empty;
    context.label_weights.reset();
    return prepared_batches(config, training, rows, context, data::eval_order(training, data), layout);
  }

  const config::Config& config;
  const config::TrainingArguments& training;
  const config::DataArguments data;
  data::BatchLayout layout;
  data::PrepareContext context;
};

// Prepares the prompts of a method that writes completions.
void add_prompts(Preparing& with, const io::ModelSource& model, const Rows& train, const Rows* eval,
                 Prepared& into) {
  const config::TrainingArguments& training = with.training;
  const std::optional<int64_t> room = prompt_room(with.config, training.online, model);
  into.train_prompts = run_prompts(with.config, training, train, with.context, room, false);
  into.train = batches_of_prompts(into.train_prompts, training.online, training.online.repeat_count);
  if (eval == nullptr) return;
  if (!training.method->evaluates && training.online.num_sample_generations == 0) {
    fail_key("eval_dataset_name",
             "eval_dataset_name: evaluation rows are refused with method {}, which has no loss of them{}: "
             "leave them out",
             training.method->name,
             training.method->episodes ? ", and with num_sample_generations: 0, which asks for none" : "");
  }
  with.context.may_be_empty = true;
  into.eval_prompts = run_prompts(with.config, training, *eval, with.context, room, true);
  into.eval = batches_of_prompts(into.eval_prompts, training.online, 1);
}

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
    add_prompts(with, model, train, eval, prepared);
    return prepared;
  }
  const data::OrderOptions order = data::train_order(training, with.data);
  if (training.method->rows == config::RowForm::unpaired) {
    with.context.label_weights = {training.preference.desirable_weight,
                                  training.preference.undesirable_weight};
  }
  prepared.train = with.data.streaming
                       ? batches_as_read(config, training, train, with.context, order, with.layout)
                       : prepared_batches(config, training, train, with.context, order, with.layout);
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
