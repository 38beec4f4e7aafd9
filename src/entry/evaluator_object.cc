#include "entry/evaluator_object.h"

#include "config/run_options.h"
#include "entry/attention_object.h"
#include "entry/memory_plan.h"
#include "entry/same_batch.h"
#include "entry/trained.h"
#include "entry/trainer_object.h"
#include "memory/plan.h"
#include "tensor/memory/mapped_pages.h"
#include "tensor/memory/rehearsal.h"

namespace trl::entry {

EvaluatorObject::EvaluatorObject(engine::Host& host, const engine::EvaluatorSpec& spec)
    : host_(host), log_(host) {
  ModelObject& object = *static_cast<ModelObject*>(spec.model);
  const config::Config& config = spec.options->config;
  object.get().align_special_tokens(spec.tokens);
  retype_adapter(object.get(), config);
  train::Evaluator::Setup setup{spec.options->arguments, &object.get(), object.path()};
  if (spec.attention != nullptr)
    setup.attention = static_cast<const AttentionObject*>(spec.attention)->plugin();
  setup.log = &log_;
  evaluator_ = std::make_unique<train::Evaluator>(std::move(setup));
}

int32_t EvaluatorObject::evaluate(engine::BatchSource& rows, std::span<const engine::Metric>* metrics,
                                  engine::ErrorSink& error) noexcept {
  *metrics = {};
  return compute(host_, error, [&] {
    record_ = evaluator_->evaluate(rows);
    metrics_.clear();
    for (const telemetry::Entry& entry : record_.entries()) metrics_.push_back({entry.name, entry.value});
    *metrics = metrics_;
    return Status::ok;
  });
}

int64_t planned_evaluation(const engine::PlanSpec& spec) {
  const auto& [config, arguments] = *spec.options;
  check_plannable(config, arguments);
  const tensor::Rehearsal rehearsal;
  base::NullLog log;
  const auto model = open_model(spec.model, &log, at::kCPU);
  if (spec.model.embedding_rows > 0) model->resize_embeddings(spec.model.embedding_rows);
  if (const auto adapter = config.get_text("adapter_name_or_path"); adapter && !adapter->empty())
    model->adapters().use(&model->adapters().open("default", *adapter, &log));
  retype_adapter(*model, config);
  train::Evaluator::Setup setup{arguments, model.get(), std::string(spec.model.path)};
  setup.arguments.share_prefix = config::SharePrefix::never;  // only the lengths of rows are known
  train::Evaluator evaluator(std::move(setup));
  engine::PlanSpec rows = spec;
  rows.longest_allowed = true;  // a packed row may be longer than the positions that its documents have
  SameBatch batch(sequences_of(lengths_of(rows, *model, true), arguments), 1);
  evaluator.evaluate(batch);
  const auto events = std::ssize(rehearsal.events());
  std::vector<memory::Holding> counted;
  for (const tensor::Taken& taken : rehearsal.taken()) {
    if (taken.stage != tensor::kMappedPages) counted.push_back({"", taken.bytes, taken.from, taken.to});
  }
  return memory::plan(counted, events, 1).peak;
}

}  // namespace trl::entry
