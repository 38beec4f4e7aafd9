// The differences between training methods. The loop asks for three things; a method has no loop, no files
// and no configuration.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/training_arguments.h"
#include "model/model.h"
#include "optim/optim.h"
#include "train/batch_loss.h"

namespace trl::train {

class RolloutMethod;
struct Joint;

// Parameters that a method trains in addition to the policy's. name: unique; theirs, and those of their
// states in checkpoints, begin with it.
struct TrainedModel {
  std::string name;
  std::vector<tensor::Parameter*> parameters;
};

class Method {
 public:
  virtual ~Method() = default;
  // Other models, or parts of them, that are trained with the policy, with gradients, an optimizer and a
  // clipping in common.
  virtual std::vector<TrainedModel> others() const { return {}; }
  // Returns the divisors of a window; evaluation (not training) passes a window of one batch.
  virtual Divisors divisors(std::span<const MicroBatch> window, bool training) const = 0;
  // Runs a micro-batch or a part of it through the model. Without a position: evaluation. states:
  // ForwardInput's.
  virtual model::Output forward(const MicroBatch& batch, const std::optional<RunPosition>& training,
                                const at::Tensor& states = {}) = 0;
  // parts: of the batch, as they will go forward. The result must not outlive the method.
  virtual std::unique_ptr<BatchLoss> loss(const MicroBatch& batch, std::span<const MicroBatch> parts,
                                          const Divisors& divisors) = 0;
  // Whether the loss of a window is a sum over sequences, whichever micro-batch they are in: its
  // micro-batches may then be computed together, by joint_loss().
  virtual bool joins() const { return false; }
  virtual bool skips_silent() const { return false; }  // JointRules'
  // joint: of these micro-batches, the first of a window. The result must not outlive them or the method.
  virtual std::unique_ptr<BatchLoss> joint_loss(std::span<const MicroBatch> batches, const Joint& joint,
                                                const Divisors& divisors);
  // Whether the loss is the mean of -log p over targets and nothing else, so that its exponential is a
  // perplexity.
  virtual bool measures_perplexity() const { return false; }
  // Names a weight of a model other than the one that is trained, as faulty_weight() does; empty: none.
  virtual std::string faulty_reference() { return {}; }
  // The part of a method that learns from completions in making them into rows; null: another method.
  virtual RolloutMethod* rollouts() { return nullptr; }
  virtual void begin_window() {}  // before the first forward of an update, also when it is tried again
  // Returns metrics of the update that is made, after its last micro-batch.
  virtual MethodMetrics update_metrics() const { return {}; }
  // Returns metrics of a step from those of its micro-batches and updates.
  virtual MethodMetrics step_metrics(std::span<const MethodMetrics>) const { return {}; }
  virtual void updated(int64_t /*step*/) {}  // called after this many updates
  // Returns the state that a checkpoint keeps of the method after this many updates. Writing to the tensors
  // loads it.
  virtual std::vector<optim::StateTensor> state(int64_t /*step*/) { return {}; }
  // Returns files of a checkpoint for people and TRL, by name; nothing is read from them.
  virtual std::vector<std::pair<std::string, std::string>> checkpoint_files() const { return {}; }
};

// The inputs of a method's construction.
struct MethodContext {
  const config::TrainingArguments& arguments;
  model::Model& model;
  kernels::AttentionPluginPtr attention = nullptr;  // the built-in one
  io::ModelSource source = {};                      // of the model, to read the weights once more
  base::LogSink* log = nullptr;
  engine::BatchSource* train = nullptr;  // to compute on all rows before the first step
  engine::BatchSource* eval = nullptr;   // or null
  bool only_evaluates = false;           // no run: nothing is trained
  engine::SpecialTokens tokens = {};     // of the tokenizer
};

// Makes the method of the configuration.
std::unique_ptr<Method> make_method(const MethodContext& context);

}  // namespace trl::train
