// Measures a model on rows as an evaluation of a training run does, without a run: nothing is trained, and
// nothing is written.
#pragma once
#include <memory>
#include <optional>

#include "train/evaluation.h"

namespace trl::train {

class Evaluator {
 public:
  struct Setup {
    config::TrainingArguments arguments;
    model::Model* model = nullptr;
    std::string model_path = {};                      // for messages
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
