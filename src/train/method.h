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
#include "train/causal.h"
#include "train/micro_batch.h"

namespace trl::train {

// Values of one micro-batch, averaged unweighted over those between two logs.
using MethodMetrics = std::vector<std::pair<std::string_view, double>>;

// The divisors of a loss.
struct Divisors {
  double items = 1;    // sums over tokens (num_items_in_batch)
  double batches = 1;  // means over a micro-batch
};

// The loss of one micro-batch, which goes through the model whole, or in parts one after the other.
class BatchLoss {
 public:
  virtual ~BatchLoss() = default;
  // Says whether a share depends on all parts, as in a loss that is not a sum over documents. Then each of
  // several parts first goes forward without a graph, to measure(), so that the weight of each output is
  // known before the first backward.
  virtual bool measures() const { return false; }
  virtual void measure(const model::Output& /*output*/, const MicroBatch& /*part*/) {}
  // Returns, if it measures, the value of the micro-batch, after all of its parts were measured.
  virtual double value_measured() { return 0; }
  // Returns a part's share as a float32 scalar, without a graph if the part has nothing to learn from. Values
  // and gradients of all parts add up to those of the micro-batch.
  virtual at::Tensor share(const model::Output& output, const MicroBatch& part) = 0;
  virtual MethodMetrics metrics() const = 0;  // of the micro-batch, after its last share
};

class Method {
 public:
  virtual ~Method() = default;
  // Returns the divisors of a window; evaluation (not training) passes a window of one batch.
  virtual Divisors divisors(std::span<const MicroBatch> window, bool training) const = 0;
  // Runs a micro-batch or a part of it through the model. Without a position: evaluation. states:
  // ForwardInput's.
  virtual model::Output forward(const MicroBatch& batch, const std::optional<RunPosition>& training,
                                const at::Tensor& states = {}) = 0;
  // parts: of the batch, as they will go forward. The result must not outlive the method.
  virtual std::unique_ptr<BatchLoss> loss(const MicroBatch& batch, std::span<const MicroBatch> parts,
                                          const Divisors& divisors) = 0;
  // Whether the loss is the mean of -log p over targets and nothing else, so that its exponential is a
  // perplexity.
  virtual bool measures_perplexity() const { return false; }
  // Names a weight of a model other than the one that is trained, as faulty_weight() does; empty: none.
  virtual std::string faulty_reference() { return {}; }
  virtual void updated(int64_t /*step*/) {}  // called after this many updates
  // Returns the state that a checkpoint keeps of the method after this many updates. Writing to the tensors
  // loads it.
  virtual std::vector<optim::StateTensor> state(int64_t /*step*/) { return {}; }
};

// The inputs of a method's construction.
struct MethodContext {
  const config::TrainingArguments& arguments;
  model::Model& model;
  kernels::AttentionPluginPtr attention = nullptr;  // the built-in one
  std::string model_path = {};                      // to read the weights once more
  base::LogSink* log = nullptr;
  engine::BatchSource* train = nullptr;  // to compute on all rows before the first step
  engine::BatchSource* eval = nullptr;   // or null
  bool only_evaluates = false;           // no run: nothing is trained
};

// Makes the method of the configuration.
std::unique_ptr<Method> make_method(const MethodContext& context);

}  // namespace trl::train
