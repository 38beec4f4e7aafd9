#include "train/gradients.h"

#include "base/error.h"

namespace trl::train {

Gradients::Gradients(std::vector<tensor::Parameter*> parameters) : parameters_(std::move(parameters)) {
  for (const tensor::Parameter* parameter : parameters_) {
    if (parameter->trainable()) fail(Status::busy, "the model is being trained by another trainer");
  }
  flat_ = optim::flat_views(parameters_, base::MemoryKind::gradients);
  for (size_t i = 0; i < parameters_.size(); ++i) parameters_[i]->grad = flat_.views[i];
}

Gradients::~Gradients() {
  for (tensor::Parameter* parameter : parameters_) parameter->grad = at::Tensor();
}

}  // namespace trl::train
