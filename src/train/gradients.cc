#include "train/gradients.h"

#include "base/error.h"
#include "tensor/counted.h"

namespace trl::train {

Gradients::Gradients(std::vector<tensor::Parameter*> parameters) : parameters_(std::move(parameters)) {
  std::vector<tensor::Parameter*> trained;
  for (tensor::Parameter* parameter : parameters_) {
    if (parameter->has_trainer()) fail(Status::busy, "the model is being trained by another trainer");
    if (parameter->trainable) trained.push_back(parameter);
  }
  flat_ = optim::flat_views(trained, base::MemoryKind::gradients);
  auto view = flat_.views.begin();
  for (tensor::Parameter* parameter : parameters_)
    parameter->begin_training(parameter->trainable ? *view++ : at::Tensor());
}

void Gradients::begin_step() {
  const bool keep = !tensor::has_memory_limit();
  for (tensor::Parameter* parameter : parameters_) parameter->keep_copies(keep);
  flat_.zero();
}

Gradients::~Gradients() {
  for (tensor::Parameter* parameter : parameters_) parameter->end_training();
}

}  // namespace trl::train
