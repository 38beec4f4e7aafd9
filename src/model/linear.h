// A linear slot of a decoder layer. The layer knows this face only, so that a slot can hold something else
// than a dense weight (quantised, with an adapter) without its neighbours noticing.
#pragma once
#include <ATen/ATen.h>

#include "kernels/kernels.h"
#include "tensor/parameter.h"

namespace trl::model {

class Linear {
 public:
  virtual ~Linear() = default;
  virtual at::Tensor forward(const at::Tensor& x,
                             at::ScalarType compute) = 0;  // [tokens, in] -> [tokens, out]
};

class DenseLinear final : public Linear {
 public:
  DenseLinear(tensor::Parameter* weight, tensor::Parameter* bias) : weight_(weight), bias_(bias) {}
  at::Tensor forward(const at::Tensor& x, at::ScalarType compute) override {
    return kernels::linear(x, *weight_, bias_, compute);
  }

 private:
  tensor::Parameter* weight_;
  tensor::Parameter* bias_;  // or null
};

}  // namespace trl::model
