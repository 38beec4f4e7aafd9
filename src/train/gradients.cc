#include "train/gradients.h"

#include "base/error.h"

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

Gradients::~Gradients() {
  for (tensor::Parameter* parameter : parameters_) parameter->end_training();
}

}  // namespace trl::train
