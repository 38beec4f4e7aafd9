// Buffers of one element per weight element (gradients, moments): one flat allocation per type, a view per
// parameter.
#pragma once
#include <ATen/ATen.h>

#include <functional>
#include <vector>

#include "base/memory/memory.h"
#include "tensor/parameter/parameter.h"

namespace trl::optim {

// Views with each parameter's shape; types: each parameter's, float32, bfloat16 or uint8.
struct FlatViews {
  std::vector<at::Tensor> buffers;  // one per type that occurs
  std::vector<at::Tensor> views;    // one per parameter
  void zero();
};
// Allocates a buffer of that many elements, uninitialised.
using Allocate = std::function<at::Tensor(int64_t count, at::ScalarType type)>;
FlatViews flat_views(const std::vector<tensor::Parameter*>& parameters,
                     const std::vector<at::ScalarType>& types, const Allocate& allocate);
// Filled with zeros.
FlatViews flat_views(const std::vector<tensor::Parameter*>& parameters,
                     const std::vector<at::ScalarType>& types, base::MemoryKind kind);
// Bytes that the buffers take.
int64_t flat_bytes(const std::vector<tensor::Parameter*>& parameters,
                   const std::vector<at::ScalarType>& types);

}  // namespace trl::optim
