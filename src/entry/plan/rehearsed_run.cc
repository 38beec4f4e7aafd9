#include "entry/plan/rehearsed_run.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

#include "base/error.h"
#include "entry/generator_object.h"
#include "entry/model_object.h"
#include "entry/plan/plan_time.h"
#include "entry/plan/same_batch.h"
#include "entry/trained_parts.h"
#include "model/layer/layer_context.h"
#include "train/batches/batches.h"
#include "train/policy/joint.h"
#include "train/trainer/trainer.h"

namespace trl::entry {

namespace {

bool evaluates(const config::TrainingArguments& arguments) {
  return arguments.eval_strategy != config::Strategy::no || arguments.eval_on_start;
}

// Counts the tokens of these rows as num_tokens does: exchanged completions are left out.
int64_t counted_tokens(std::span<const int64_t> rows, const config::TrainingArguments& arguments) {
  return arguments.method->sequences * std::accumulate(rows.begin(), rows.end(), int64_t{0});
}

// Returns the bytes that generation keeps for one sequence of `tokens` tokens.
int64_t cache_bytes(const model::Model& model, int64_t tokens, const engine::GeneratorSpec& spec) {
  return generate::block_bytes(model, cache_kind(model, spec)) * generate::Scheduler::blocks_of(tokens);
}

// Completes sample_prompts, which the run does without in case of an error.
std::optional<RehearsedGeneration> rehearse_samples(const model::Model& model, const engine::PlanSpec& spec,
                                                    const tensor::Rehearsal& rehearsal) {
  if (spec.samples.prompts.empty()) return std::nullopt;
  try {
    return rehearse_generation(model, spec.generator, spec.samples, rehearsal);
  } catch (const Error& error) {
    if (error.status() == Status::cancelled || error.status() == Status::callback) throw;
    return std::nullopt;
  }
}

std::optional<RehearsedGeneration> rehearse_asked(const model::Model& model, const engine::PlanSpec& spec,
                                                  const tensor::Rehearsal& rehearsal) {
  if (spec.asked.prompts.empty()) return std::nullopt;
  if (model.config().labels > 0)
    fail_key("estimate.prompt_tokens",
             "estimate.prompt_tokens: a reward model scores text and cannot complete it: leave it out");
  return rehearse_generation(model, spec.generator, spec.asked, rehearsal);
}

// Returns the tokens by which a group of completions, as one tree, exceeds a micro-batch; 0: it does not, or
// it is cut.
int64_t joint_tokens(const config::TrainingArguments& arguments, std::span<const int64_t> lengths) {
  const config::OnlineArguments& online = arguments.online;
  const int64_t rows = std::ssize(lengths) * arguments.gradient_accumulation_steps;
  if (arguments.max_tokens_per_pass || lengths.empty()) return 0;
  const int64_t completion = online.longest_completion(), longest = std::ranges::max(lengths);
  const int64_t tree = longest + (std::min(online.num_generations, rows) - 1) * completion;
  const int64_t micro_batch = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  return train::largest_part(micro_batch, tree) - micro_batch;
}

void count_parameters(model::Model& model, Rehearsed& out) {
  for (const tensor::Parameter* p : model.all_parameters()) {
    out.plan.parameters += p->count();
    if (!p->trainable) continue;
    out.plan.trained_parameters += p->count();
    out.trained_bytes += p->count() * static_cast<int64_t>(c10::elementSize(p->dtype()));
  }
}

}  // namespace

std::unique_ptr<model::Model> open_as_run(const engine::PlanSpec& spec, const config::Config& config) {
  base::NullLog log;
  auto model = model::Model::open(spec.model.source, spec.model.dtype, &log, at::kCPU, head_of(config),
                                  spec.model.quantization, spec.model.seed);
  if (spec.model.embedding_rows > 0) model->resize_embeddings(spec.model.embedding_rows);
  if (spec.model.wide_head) model->widen_head();
  const tensor::Stage stage("adapters");
  if (const auto adapter = config.get_text("adapter_name_or_path"); adapter && !adapter->empty())
    model->adapters().open("default", *adapter, &log);
  refuse_quantised(*model, config);
  add_adapter(*model, spec.model.source.name(), config, spec.new_tokens, log);
  return model;
}

void rehearse_run(const engine::PlanSpec& spec, const config::Config& config,
                  const config::TrainingArguments& arguments, const tensor::Rehearsal& rehearsal,
                  Rehearsed& out) {
  const auto model = open_as_run(spec, config);
  train::Setup setup;
  setup.arguments = arguments;
  setup.arguments.levers = spec.levers;
  const std::vector<int64_t> lengths = lengths_of(spec, *model, config.get_bool("packing"));
  const int64_t longest = lengths.empty() ? 1 : *std::ranges::max_element(lengths);
  out.plan.row_tokens = out.plan.cache_tokens = longest;
  out.tokens = counted_tokens(lengths, arguments);
  SameBatch batches(sequences_of(lengths, setup.arguments), setup.arguments);
  const std::vector evaluated_rows(static_cast<size_t>(setup.arguments.per_device_eval_batch_size),
                                   spec.eval_longest > 0 ? spec.eval_longest : longest);
  SameBatch evaluation(sequences_of(evaluated_rows, setup.arguments), setup.arguments, 1);
  setup.arguments.on_nonfinite = config::OnNonfinite::proceed;
  setup.arguments.max_steps = 2;
  setup.arguments.profile_parts = false;
  setup.arguments.share_prefix = config::SharePrefix::never;  // only the lengths of rows are known
  const bool evaluated = evaluates(setup.arguments);
  setup.model = model.get();
  setup.source = spec.model.source;
  setup.train = &batches;
  if (evaluated) setup.eval = &evaluation;
  train::Trainer trainer(std::move(setup));
  if (trainer.joins() && arguments.gradient_accumulation_steps > 1 &&
      train::sharing_of(arguments, *model, nullptr, nullptr))
    batches.join(joint_tokens(arguments, lengths));
  count_parameters(*model, out);
  std::vector<const model::Model*> writers = {model.get()};
  if (const model::Model* const teacher = trainer.teacher()) writers.push_back(teacher);
  std::vector<std::shared_ptr<generate::Cache>> caches;
  for (const model::Model* writer : writers) caches.push_back(kept_cache(*writer, spec));
  trainer.rehearse();
  out.work = rehearsal.work();
  for (size_t i = 0; i < writers.size() && !spec.rollouts.prompts.empty(); ++i)
    rehearse_generation(*writers[i], spec.generator, spec.rollouts, rehearsal, caches[i]);
  out.traffic += 2.0 * static_cast<double>(out.trained_bytes);
  for (const tensor::Taken& taken : rehearsal.taken()) out.traffic += traffic_of(taken);
  if (evaluated) {
    const tensor::Stage stage("evaluation");
    trainer.evaluate();
  }
  out.samples = rehearse_samples(*model, spec, rehearsal);
  out.events = std::ssize(rehearsal.events());  // later events belong to the trainer's end
  out.asked = rehearse_asked(*model, spec, rehearsal);
  out.merge = rehearse_merge(*model, rehearsal);
  out.disk = trainer.disk_needs();
  out.token_state_bytes =
      model->config().hidden_size * static_cast<int64_t>(c10::elementSize(model->dtype()));
  out.plan.cache_bytes = cache_bytes(*model, longest, spec.generator);
}

}  // namespace trl::entry
