// The shared part of GRPO and RLOO, whose losses are sums over the policy's own completions.
#pragma once
#include <memory>

#include "train/policy/joint_loss.h"
#include "train/policy/online.h"

namespace trl::train {

class PolicyMethod : public Online {
 public:
  std::unique_ptr<BatchLoss> loss(const MicroBatch& batch, std::span<const MicroBatch>,
                                  const Divisors& divisors) final {
    return joint_loss({&batch, 1}, alone(batch, all_arguments().max_tokens_per_pass), divisors);
  }
  bool joins() const final { return joins_; }
  bool skips_silent() const final {
    return joins_ && arguments().skip_silent_rows && silent_without_advantage();
  }
  std::unique_ptr<BatchLoss> joint_loss(std::span<const MicroBatch> batches, const Joint& joint,
                                        const Divisors& divisors) final;

 protected:
  // Adds the values of generation that rows without anything to teach need, if it is exact.
  void keep_generated(Rollout& rollout) const;
  PolicyMethod(const MethodContext& context, bool compares);
  virtual std::unique_ptr<OwnLoss> own_loss(const MicroBatch& batch, const Divisors& divisors) = 0;
  // Whether a row without advantage adds nothing to the gradient.
  virtual bool silent_without_advantage() const { return true; }

 private:
  const bool joins_;
};

}  // namespace trl::train
