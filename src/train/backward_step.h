// optimizer_in_backward: each parameter is updated as soon as backward has its gradient, which is then freed.
// All results are those of a step after backward, bit by bit.
#pragma once
#include <functional>
#include <optional>

#include "optim/norm_of_parts.h"
#include "optim/optim.h"
#include "train/gradients.h"

namespace trl::train {

class BackwardStep {
 public:
  struct Updates {
    double learning_rate, grad_scale;
    // Called before each update: throws if it must not be made. finite: whether the gradient is.
    std::function<void(const tensor::Parameter&, bool finite)> check;
  };

  BackwardStep(Gradients& gradients, optim::Optimizer& optimizer);

  // Runs backward, which is not interrupted once an update may have been made. Returns the norm of all
  // gradients. updates: none: only computes the norm, and changes nothing else.
  double run(const std::optional<Updates>& updates, const std::function<void()>& backward);
  // Says whether a backward failed halfway: some parameters are updated and some are not.
  bool torn() const { return torn_; }

 private:
  void take(size_t index);  // in trained()
  void update(tensor::Parameter& parameter);

  Gradients& gradients_;
  optim::Optimizer& optimizer_;
  std::optional<Updates> updates_;
  std::vector<bool> taken_;  // of each trained parameter, in this run
  optim::NormOfParts norm_;
  bool torn_ = false;
};

}  // namespace trl::train
