// A linear slot of a decoder layer. The layer knows this face only, so that a slot can hold something else
// than a dense weight (quantised, with an adapter) without its neighbours noticing.
#pragma once
#include <ATen/ATen.h>

#include <initializer_list>
#include <vector>

#include "kernels/kernels.h"
#include "tensor/parameter.h"

namespace trl::model {

class Linear {
 public:
  virtual ~Linear() = default;
  // [tokens, in] -> [tokens, out]
  virtual at::Tensor forward(const at::Tensor& x, at::ScalarType compute, const kernels::Again& again) = 0;
  // The weight and bias that say all there is to it; null for anything else. Such slots of one x run
  // together.
  virtual const kernels::Projection* dense() const { return nullptr; }
};

class DenseLinear final : public Linear {
 public:
  DenseLinear(tensor::Parameter* weight, tensor::Parameter* bias) : projection_{weight, bias} {}
  at::Tensor forward(const at::Tensor& x, at::ScalarType compute, const kernels::Again& again) override {
    return kernels::linear(x, *projection_.weight, projection_.bias, compute, again);
  }
  const kernels::Projection* dense() const override { return &projection_; }

 private:
  kernels::Projection projection_;
};

// Several slots of the same x.
inline std::vector<at::Tensor> project(const at::Tensor& x, std::initializer_list<Linear*> slots,
                                       at::ScalarType compute, const kernels::Again& again) {
  std::vector<kernels::Projection> dense;
  for (const Linear* slot : slots) {
    if (slot->dense() != nullptr) dense.push_back(*slot->dense());
  }
  if (dense.size() == slots.size()) return kernels::linear(x, dense, compute, again);
  std::vector<at::Tensor> outputs;
  for (Linear* slot : slots) outputs.push_back(slot->forward(x, compute, again));
  return outputs;
}

}  // namespace trl::model
