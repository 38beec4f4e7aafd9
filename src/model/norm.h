// A norm that a family may lack: then it has no weight and returns its input.
#pragma once
#include "kernels/kernels.h"

namespace trl::model {

using kernels::Norm;

inline at::Tensor normed(const at::Tensor& x, const Norm& norm) {
  return norm.weight != nullptr ? kernels::norm(x, norm) : x;
}

// stream + scale * branch, and the norm of that; without a branch (undefined) the stream and its norm.
inline kernels::Residual residual(const at::Tensor& stream, const at::Tensor& branch, const Norm& norm,
                                  double scale = 1) {
  if (norm.weight != nullptr) return kernels::residual_norm(stream, branch, norm, scale);
  const at::Tensor sum = branch.defined() ? kernels::add(stream, branch, scale) : stream;
  return {sum, sum};
}

}  // namespace trl::model
