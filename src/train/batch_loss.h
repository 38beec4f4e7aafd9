// The loss of a micro-batch, which goes through the model whole, or in parts one after the other.
#pragma once
#include <functional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "train/batches/micro_batch.h"
#include "train/causal.h"

namespace trl::train {

// The divisors of a loss.
struct Divisors {
  double items = 1;    // sums over tokens (num_items_in_batch)
  double batches = 1;  // means over a micro-batch
  bool training = true;
};

// Values of one micro-batch, averaged unweighted over those between two logs.
using MethodMetrics = std::vector<std::pair<std::string_view, double>>;

// A part's share of the loss. The values and gradients of all parts add up to those of the micro-batch.
struct Share {
  float value = 0;
  // A scalar from which backward makes the share's gradients; its own value may be another. Undefined, or
  // without a graph, if the part has nothing to learn from.
  at::Tensor graph = {};
};

using PartForward = std::function<model::Output(const MicroBatch& part)>;
// Gets a part's share, runs its backward, and says whether the next part follows.
using PartBackward = std::function<bool(const Share& share, bool last)>;

struct BatchResult {
  float loss = 0;
  MethodMetrics metrics;
};

// Of one micro-batch: a method derives from one of the two kinds below. Of several: joint_loss.h.
class BatchLoss {
 public:
  virtual ~BatchLoss() = default;
  // Runs forward, loss and backward of one part after the other.
  virtual void each_part(std::span<const MicroBatch> parts, const PartForward& forward,
                         const PartBackward& backward) = 0;
  // Returns the metrics of the micro-batch, after its last share.
  virtual MethodMetrics metrics() const = 0;
  // Returns the results of each micro-batch, after the last share. loss: the sum of the shares.
  virtual std::vector<BatchResult> results(float loss) const { return {{loss, metrics()}}; }
};

// A loss that is a sum over targets: a part has its share by itself.
class SummedLoss : public BatchLoss {
 public:
  void each_part(std::span<const MicroBatch> parts, const PartForward& forward,
                 const PartBackward& backward) final;

 private:
  virtual Share share(const model::Output& output, const MicroBatch& part) = 0;
};

// A loss whose shares depend on all parts. It has two steps: first all parts are measured, without a graph,
// and then each learns under the weights that follow. A micro-batch in one part goes forward once for both;
// several parts go forward once for each step, or only for the first if no graph is recorded.
class WeighedLoss : public BatchLoss {
 public:
  void each_part(std::span<const MicroBatch> parts, const PartForward& forward,
                 const PartBackward& backward) final;

 private:
  // Takes in the outputs of the next part.
  virtual void measure(const model::Output& output, const MicroBatch& part) = 0;
  // Ends the first step: fixes the weights, and returns the value of the micro-batch.
  virtual float weigh() = 0;
  // Returns the graph of the next part's share.
  virtual at::Tensor learn(const model::Output& output, const MicroBatch& part) = 0;
};

// A loss that is a function of sums over its sequences' log-probabilities, as preference losses are: the
// weight of a target is known only after all targets were seen.
class SequenceLoss : public WeighedLoss {
 protected:
  SequenceLoss(const Causal& causal, const Divisors& divisors)
      : causal_(causal), batches_(divisors.batches) {}
  std::optional<double> router_loss() const { return router_loss_; }  // metric aux_loss

 private:
  // Adds a target of the micro-batch, by its number, with its values. Called in order.
  virtual void add(size_t target, int32_t sequence, const kernels::TokenValues& values) = 0;
  virtual double value() = 0;  // of the loss, after all were added
  // Returns the derivative by the target's log-probability, after value(). Only asked for if the target
  // learns.
  virtual double slope(size_t target, int32_t sequence) const = 0;
  virtual bool learns(size_t /*target*/, int32_t /*sequence*/) const { return true; }

  void measure(const model::Output& output, const MicroBatch& part) final;
  float weigh() final;
  at::Tensor learn(const model::Output& output, const MicroBatch& part) final;

  const Causal& causal_;
  const double batches_;
  std::vector<int32_t> sequences_;  // of each measured target
  std::vector<double> weights_;     // of each target that learns
  size_t passed_ = 0;               // targets of the parts whose graphs are made
  size_t learned_ = 0;              // those of them that learn
  std::optional<double> router_loss_;
  float router_share_ = 0;
};

}  // namespace trl::train
