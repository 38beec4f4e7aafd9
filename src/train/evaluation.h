// One pass over evaluation rows, for a trainer between its steps and for an evaluator.
#pragma once
#include <functional>
#include <optional>

#include "telemetry/record.h"
#include "train/batches.h"
#include "train/method.h"

namespace trl::train {

struct Evaluation {
  const config::TrainingArguments& arguments;
  Method& method;
  const model::ModelConfig& model;
  const std::optional<data::TreeLimits>& share;                  // sharing.h
  std::function<model::Output(const MicroBatch& part)> forward;  // without a graph
  // Hears of each micro-batch whose loss is not finite; may throw, or be empty.
  std::function<void(double loss, const MicroBatch& batch)> nonfinite = {};
};

// Returns eval_loss (if there is a batch), the time it took and the means of the method's metrics.
telemetry::Record evaluate(const Evaluation& evaluation, engine::BatchSource& rows);

}  // namespace trl::train
