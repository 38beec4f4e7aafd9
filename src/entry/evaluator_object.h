// engine::Evaluator over train/.
#pragma once
#include <memory>
#include <span>

#include "engine/batch_source.h"
#include "engine/host.h"
#include "engine/trainer.h"
#include "entry/boundary.h"
#include "entry/held_metrics.h"
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
  HeldMetrics metrics_;
};

}  // namespace trl::entry
