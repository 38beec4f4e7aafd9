#include "entry/evaluator_object.h"

#include "entry/attention_object.h"
#include "entry/model_object.h"
#include "entry/trained_parts.h"

namespace trl::entry {

EvaluatorObject::EvaluatorObject(engine::Host& host, const engine::EvaluatorSpec& spec)
    : host_(host), log_(host) {
  ModelObject& object = *static_cast<ModelObject*>(spec.model);
  const config::Config& config = spec.options->config;
  object.get().align_special_tokens(spec.tokens);
  retype_adapter(object.get(), config);
  train::Evaluator::Setup setup{spec.options->arguments, &object.get(), object.source()};
  if (spec.attention != nullptr)
    setup.attention = static_cast<const AttentionObject*>(spec.attention)->plugin();
  setup.log = &log_;
  evaluator_ = std::make_unique<train::Evaluator>(std::move(setup));
}

int32_t EvaluatorObject::evaluate(engine::BatchSource& rows, std::span<const engine::Metric>* metrics,
                                  engine::ErrorSink& error) noexcept {
  *metrics = {};
  return compute(host_, error, [&] { *metrics = metrics_.hold(evaluator_->evaluate(rows)); });
}

}  // namespace trl::entry
