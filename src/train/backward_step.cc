#include "train/backward_step.h"

#include <cmath>

#include "base/error.h"
#include "base/interrupt.h"
#include "tensor/parts.h"

namespace trl::train {

BackwardStep::BackwardStep(Gradients& gradients, optim::Optimizer& optimizer)
    : gradients_(gradients), optimizer_(optimizer) {
  for (tensor::Parameter* p : gradients_.trained()) p->collect_late();
}

double BackwardStep::run(const std::optional<Updates>& updates, const std::function<void()>& backward) {
  const std::vector<tensor::Parameter*>& trained = gradients_.trained();
  updates_ = updates;
  taken_.assign(trained.size(), false);
  norm_ = optim::NormOfParts(trained.size());
  base::poll();
  const base::InterruptScope whole(updates ? nullptr : base::thread_interrupt());
  gradients_.begin_last_backward([this](size_t index) { take(index); });
  backward();
  for (size_t i = 0; i < trained.size(); ++i) {
    if (!taken_[i]) take(i);  // not in the graph: its gradient is zero
  }
  torn_ = false;
  return norm_.norm();
}

void BackwardStep::take(size_t index) {
  const tensor::Timed timed(tensor::Part::optimizer);
  tensor::Parameter& parameter = *gradients_.trained()[index];
  if (taken_[index]) fail(Status::internal, "the gradient of {} was complete twice", parameter.name);
  taken_[index] = true;
  const double squares = norm_.add(index, parameter.gradient());
  if (updates_) updates_->check(parameter, std::isfinite(squares));
  if (updates_) update(parameter);
  parameter.drop_gradient();
}

void BackwardStep::update(tensor::Parameter& parameter) {
  if (!torn_) optimizer_.begin_step();
  torn_ = true;
  optimizer_.step(parameter, updates_->learning_rate, updates_->grad_scale);
}

}  // namespace trl::train
