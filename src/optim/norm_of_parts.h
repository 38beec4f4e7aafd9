// l2_norm() of tensors that never exist all at once.
#pragma once
#include <ATen/ATen.h>

#include <vector>

namespace trl::optim {

class NormOfParts {
 public:
  explicit NormOfParts(size_t tensors = 0) : sums_(tensors), plain_(tensors) {}
  double add(size_t index, const at::Tensor& x);  // in any order; returns the sum of its squares
  double norm() const;                            // the bits of l2_norm() of all of them, in their order

 private:
  std::vector<std::vector<double>> sums_;  // of each tensor's pieces
  std::vector<at::Tensor> plain_;          // off the fused path: of each tensor its norm
};

}  // namespace trl::optim
