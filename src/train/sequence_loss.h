// The loss of a micro-batch that is a function of sums over its sequences' log-probabilities, as preference
// losses are: the weight of a target is known only after all targets were seen.
#pragma once
#include "train/method.h"

namespace trl::train {

class SequenceLoss : public BatchLoss {
 public:
  bool measures() const final { return true; }
  void measure(const model::Output& output, const MicroBatch& part) final;
  double value_measured() final { return value() / batches_; }
  at::Tensor share(const model::Output& output, const MicroBatch& part) final;

 protected:
  SequenceLoss(const Causal& causal, const Divisors& divisors)
      : causal_(causal), batches_(divisors.batches) {}
  std::optional<double> router_loss() const { return router_loss_; }  // metric aux_loss

 private:
  // Adds a target of the micro-batch, by its number, with its values. Called in order.
  virtual void add(size_t target, int32_t sequence, const kernels::TokenValues& values) = 0;
  virtual double value() = 0;  // of the loss, after all were added
  // Returns the derivative by the target's log-probability, after value(). It is 0 for a sequence for which
  // learns() is false.
  virtual double slope(size_t target, int32_t sequence) const = 0;
  virtual bool learns(int32_t /*sequence*/) const { return true; }
  at::Tensor backward(const model::Output& output, const MicroBatch& part) const;

  const Causal& causal_;
  const double batches_;
  size_t measured_ = 0, shared_ = 0;  // targets
  bool has_shared_ = false;           // any part was shared, even one without targets
  std::optional<double> router_loss_;
};

}  // namespace trl::train
