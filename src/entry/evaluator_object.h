// Implements engine::Evaluator over train/, and plans the memory that one takes.
#pragma once
#include <memory>
#include <vector>

#include "engine/engine.h"
#include "entry/boundary.h"
#include "entry/model_object.h"
#include "train/evaluator.h"

namespace trl::entry {

class EvaluatorObject final : public engine::Evaluator {
 public:
  EvaluatorObject(engine::Host& host, const engine::EvaluatorSpec& spec);
  void release() noexcept override { delete this; }
  int32_t evaluate(engine::BatchSource& rows, std::span<const engine::Metric>* metrics,
                   engine::ErrorSink& error) noexcept override;

 private:
  ~EvaluatorObject() = default;
  engine::Host& host_;
  HostLog log_;
  std::unique_ptr<train::Evaluator> evaluator_;
  telemetry::Record record_;  // the record behind metrics_
  std::vector<engine::Metric> metrics_;
};

int64_t planned_evaluation(const engine::PlanSpec& spec);  // engine::Engine::plan_evaluation

}  // namespace trl::entry
