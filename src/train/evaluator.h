// One pass over evaluation rows, for a trainer between its steps and for an evaluator.
#pragma once
#include <functional>
#include <memory>
#include <optional>

#include "telemetry/trainer_state.h"
#include "train/batches/batches.h"
#include "train/method.h"

namespace trl::train {

struct Evaluation {
  const config::TrainingArguments& arguments;
  Method& method;
  const model::ModelConfig& model;
  const std::optional<data::TreeLimits>& share;
  std::function<model::Output(const MicroBatch& part)> forward;  // without a graph
  // Hears of each micro-batch whose loss is not finite; may throw, or be empty.
  std::function<void(double loss, const MicroBatch& batch)> nonfinite = {};
};

// Returns eval_loss (if there is a batch), the time it took and the means of the method's metrics.
telemetry::Record evaluate(const Evaluation& evaluation, engine::BatchSource& rows);

// Measures a model on rows as an evaluation of a training run does, without a run: nothing is trained, and
// nothing is written.
class Evaluator {
 public:
  struct Setup {
    config::TrainingArguments arguments;
    model::Model* model = nullptr;
    io::ModelSource source = {};                      // of the model
    kernels::AttentionPluginPtr attention = nullptr;  // the built-in one
    base::LogSink* log = nullptr;                     // or null
  };
  explicit Evaluator(Setup setup);

  // Returns the numbers that a trainer reports, and eval_perplexity after eval_loss if it is meaningful.
  telemetry::Record evaluate(engine::BatchSource& rows);

 private:
  // Throws, under on_nonfinite: error, if the loss is not finite because a weight is not.
  void check_weights(double loss, const MicroBatch& batch);

  const Setup setup_;
  const std::shared_ptr<void> int8_;  // frozen_compute: int8
  const std::unique_ptr<Method> method_;
  const std::optional<data::TreeLimits> share_;
};

}  // namespace trl::train
