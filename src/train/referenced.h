// The shared part of the methods that train a causal model against a reference (DPO, KTO).
#pragma once
#include "train/method.h"
#include "train/reference.h"

namespace trl::train {

class Referenced : public Method {
 public:
  Divisors divisors(std::span<const MicroBatch> window, bool) const final {
    return {1, static_cast<double>(window.size())};
  }
  model::Output forward(const MicroBatch& batch, const std::optional<RunPosition>& training,
                        const at::Tensor& states) override {
    return causal_.forward(batch, training, states);
  }
  std::string faulty_reference() final { return reference_->faulty_weight(); }
  void updated(int64_t step) final;
  std::vector<optim::StateTensor> state(int64_t step) final;

 protected:
  explicit Referenced(const MethodContext& context);
  const Causal& causal() const { return causal_; }
  // Returns the reference's log-probabilities of all targets of a micro-batch, in their order.
  std::vector<float> reference(std::span<const MicroBatch> parts);

 private:
  const Causal causal_;
  const config::PreferenceArguments arguments_;
  const std::unique_ptr<Reference> reference_;
};

}  // namespace trl::train
