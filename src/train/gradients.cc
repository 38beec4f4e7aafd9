#include "train/gradients.h"

#include "base/error.h"
#include "tensor/memory/counted.h"

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

}  // namespace trl::train
