// What a trainer gives to each parameter while it lives: a gradient to those that are not frozen, all of them
// views into flat buffers of the weights' types; and leave to keep copies in the type that is computed in,
// from the start of one step to that of the next, if the process has no memory limit then.
#pragma once
#include <vector>

#include "optim/flat.h"
#include "tensor/parameter.h"

namespace trl::train {

class Gradients {
 public:
  explicit Gradients(std::vector<tensor::Parameter*> parameters);  // Error(busy): another trainer has one
  ~Gradients();
  Gradients(const Gradients&) = delete;
  Gradients& operator=(const Gradients&) = delete;
  void begin_step();  // gradients are zero then

 private:
  const std::vector<tensor::Parameter*> parameters_;
  optim::FlatViews flat_;
};

}  // namespace trl::train
