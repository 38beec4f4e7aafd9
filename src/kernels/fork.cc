#include "kernels/fork.h"

#include "kernels/op.h"

namespace trl::kernels {

namespace {

struct Fork : torch::autograd::Function<Fork> {
  static tensor_list forward(AutogradContext*, const at::Tensor& x) { return {x.detach(), x.detach()}; }
  static tensor_list backward(AutogradContext*, tensor_list grads) {
    if (!grads[0].defined() || !grads[1].defined()) return {grads[0].defined() ? grads[0] : grads[1]};
    return {kernels::add(grads[0].contiguous(), grads[1].contiguous())};
  }
};

}  // namespace

std::pair<at::Tensor, at::Tensor> fork(const at::Tensor& x) {
  if (!records(x) || !fused(x)) return {x, x};
  const tensor_list both = Fork::apply(x);
  return {both[0], both[1]};
}

}  // namespace trl::kernels
