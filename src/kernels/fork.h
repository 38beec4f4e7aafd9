// A tensor that is used twice. libtorch's autograd would sum the two gradients in memory of its own, which
// the counter does not see; this sums them in counted memory.
#pragma once
#include <ATen/ATen.h>

#include <utility>

namespace trl::kernels {

std::pair<at::Tensor, at::Tensor> fork(const at::Tensor& x);  // both are x

}  // namespace trl::kernels
