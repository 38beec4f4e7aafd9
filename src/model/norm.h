// Norms as the families have them. A norm without a weight is none: it gives back what it is given.
#pragma once
#include "kernels/kernels.h"
#include "kernels/kinds.h"

namespace trl::model {

struct Norm {
  tensor::Parameter* weight = nullptr;
  tensor::Parameter* bias = nullptr;
  kernels::NormKind kind = kernels::NormKind::rms;
  double eps = 1e-6;

  explicit operator bool() const { return weight != nullptr; }
  at::Tensor operator()(const at::Tensor& x) const { return weight != nullptr ? kernels::norm(x, of()) : x; }
  // stream + branch, and the norm of that; without a branch (undefined) of the stream.
  kernels::Residual after(const at::Tensor& stream, const at::Tensor& branch) const {
    if (weight != nullptr) return kernels::residual_norm(stream, branch, of());
    const at::Tensor sum = branch.defined() ? kernels::add(stream, branch) : stream;
    return {sum, sum};
  }

 private:
  kernels::Norm of() const { return {weight, bias, kind, eps}; }
};

}  // namespace trl::model
