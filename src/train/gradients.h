// The gradients of all parameters while a trainer lives: views into flat buffers, of the weights' types.
#pragma once
#include <vector>

#include "optim/flat.h"
#include "tensor/parameter.h"

namespace trl::train {

class Gradients {
 public:
  explicit Gradients(std::vector<tensor::Parameter*> parameters);
  ~Gradients();
  Gradients(const Gradients&) = delete;
  Gradients& operator=(const Gradients&) = delete;
  void zero() { flat_.zero(); }

 private:
  const std::vector<tensor::Parameter*> parameters_;
  optim::FlatViews flat_;
};

}  // namespace trl::train
