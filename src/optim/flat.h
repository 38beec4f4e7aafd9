// Buffers of one element per weight element (gradients, moments): one flat allocation per type, a view per
// parameter.
#pragma once
#include <ATen/ATen.h>

#include <vector>

#include "base/memory.h"
#include "tensor/parameter.h"

namespace trl::optim {

// Zeroed, with each parameter's shape and type.
struct FlatViews {
  std::vector<at::Tensor> buffers;  // one per type that occurs
  std::vector<at::Tensor> views;    // one per parameter
  void zero();
};
FlatViews flat_views(const std::vector<tensor::Parameter*>& parameters, base::MemoryKind kind);

}  // namespace trl::optim
