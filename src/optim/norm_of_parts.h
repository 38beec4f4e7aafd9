// l2_norm() of tensors that do not all exist at the same time.
#pragma once
#include <ATen/ATen.h>

#include <vector>

namespace trl::optim {

class NormOfParts {
 public:
  explicit NormOfParts(size_t tensors = 0) : sums_(tensors), plain_(tensors) {}
  double add(size_t index, const at::Tensor& x);  // in any order; returns the sum of x's squares
  double norm() const;                            // bit-equal to l2_norm() of all of them in their order

 private:
  std::vector<std::vector<double>> sums_;  // sums of each tensor's pieces
  std::vector<at::Tensor> plain_;          // each tensor's norm, off the fused path
};

}  // namespace trl::optim
