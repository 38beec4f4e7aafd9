// The loss of micro-batches whose rows go through the model together.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "train/batch_loss.h"
#include "train/policy/joint.h"

namespace trl::train {

// The loss of one micro-batch: a function of the values of its targets, which are numbered in order of
// sequences, then of tokens.
class OwnLoss {
 public:
  virtual ~OwnLoss() = default;
  // The targets that a target's term depends on: itself, those of its sequence, or all.
  enum class Reach : uint8_t { token, sequence, all };
  virtual Reach reach() const = 0;
  virtual bool by_entropy() const { return false; }  // whether a term may have a derivative by the entropy
  virtual void take(size_t target, const kernels::TokenValues& values) = 0;
  // Makes the terms of those targets known whose reach was taken; not called if that is the token.
  virtual void measure() {}
  // A target's part of the loss, and its derivatives. Any number of threads.
  virtual kernels::TokenTerm term(size_t target, double log_prob, double entropy) const = 0;
  // Return the loss and the metrics, after all targets were taken.
  virtual double value() = 0;
  virtual MethodMetrics metrics() = 0;
};

class JointLoss final : public BatchLoss {
 public:
  // own: of each micro-batch, all of one kind. causal, batches, which `joint` is of: outlive it.
  JointLoss(const Causal& causal, std::span<const MicroBatch> batches, const Joint& joint,
            std::vector<std::unique_ptr<OwnLoss>> own, const Divisors& divisors);

  ~JointLoss() override;

  // parts: the joint's. A part without anything to teach has no share of its own.
  void each_part(std::span<const MicroBatch> parts, const PartForward& forward,
                 const PartBackward& backward) override;
  MethodMetrics metrics() const override { return metrics_of(*own_.front()); }
  std::vector<BatchResult> results(float loss) const override;

 private:
  struct Target {
    size_t batch, number;
  };
  using PartTargets = std::vector<Target>;
  class Terms;

  PartTargets targets_of(const MicroBatch& part);
  void take_generated(const MicroBatch& batch, const Place& place);
  void take(const PartTargets& targets, const std::vector<kernels::TokenValues>& values);
  // Returns the loss of these targets.
  double measure(const model::Output& output, const MicroBatch& part, const PartTargets& targets);
  Share share(const model::Output& output, const MicroBatch& part, const PartTargets& targets, bool measured);
  MethodMetrics metrics_of(OwnLoss& own) const;
  double router_share() const { return router_loss_.value_or(0) * router_weight_; }

  const Causal& causal_;
  const std::vector<Place> places_;
  const size_t silent_;
  const std::vector<std::unique_ptr<OwnLoss>> own_;
  const OwnLoss::Reach reach_;
  const double router_weight_;
  std::vector<std::vector<size_t>> next_;      // by micro-batch and sequence: the number of its next target
  std::vector<std::unique_ptr<Terms>> terms_;  // of each part; a graph refers to them
  std::optional<double> router_loss_;
};

}  // namespace trl::train
