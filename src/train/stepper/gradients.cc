#include "train/stepper/gradients.h"

#include <cmath>

#include "base/error.h"
#include "base/interrupt.h"
#include "tensor/memory/counted.h"
#include "tensor/parts.h"

namespace trl::train {

Gradients::Gradients(std::vector<tensor::Parameter*> parameters, std::optional<at::ScalarType> type)
    : parameters_(std::move(parameters)) {
  for (tensor::Parameter* p : parameters_) {
    if (p->has_trainer()) fail(Status::busy, "the model is being trained by another trainer");
    if (p->trainable) trained_.push_back(p);
  }
  for (tensor::Parameter* p : parameters_)
    p->begin_training_in(p->trainable ? std::optional(type.value_or(p->dtype())) : std::nullopt);
  for (size_t i = 0; i < trained_.size(); ++i) trained_[i]->on_complete([this, i] { completed(i); });
}

Gradients::~Gradients() {
  for (tensor::Parameter* p : parameters_) p->end_training();
}

void Gradients::begin_step(Copies copies) {
  if (tensor::has_memory_limit()) copies = Copies::none;
  for (tensor::Parameter* p : parameters_)
    p->keep_copies(copies != Copies::none, copies == Copies::brief && p->has_gradient());
  drop();
  complete_ = {};
  last_ = false;
}

void Gradients::end_step() {
  for (tensor::Parameter* p : trained_) p->end_gradient();
}

void Gradients::drop() {
  parts_.clear();
  for (tensor::Parameter* p : trained_) p->drop_gradient();
}

void Gradients::begin_parts() {
  for (tensor::Parameter* p : trained_) {
    p->collect_in_parts();
    parts_.emplace_back(*p);
  }
}

void Gradients::end_parts() {
  for (tensor::Use& use : parts_) use.end();
  parts_.clear();
}

void Gradients::begin_last_backward(std::function<void(size_t)> complete) {
  complete_ = std::move(complete);
  last_ = true;
}

void Gradients::completed(size_t index) {
  if (!last_) return;
  trained_[index]->drop_copy();
  if (complete_) complete_(index);
}

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
  for (size_t i = 0; i < trained.size(); ++i)
    if (!taken_[i]) take(i);  // not in the graph: its gradient is zero
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
