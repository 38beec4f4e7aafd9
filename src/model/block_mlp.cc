#include "model/block_mlp.h"

namespace trl::model {

at::Tensor BlockMlp::forward(const at::Tensor& x, const kernels::Again& again,
                             const LayerContext& context) const {
  return from_wide(kernels::linear(x, in, context.compute, again), context);
}

at::Tensor BlockMlp::from_wide(const std::vector<at::Tensor>& wide, const LayerContext& context) const {
  // An activation costs little beside the product that reads it: it is made again in backward.
  std::vector<at::Tensor> kept;
  for (const at::Tensor& part : wide) kept.push_back(part.detach());
  const kernels::Again activated = [kept = std::move(kept), this] { return activate(kept); };
  const at::Tensor y = kernels::linear(activate(wide), out, context.compute, activated)[0];
  return kernels::dropout(y, context.dropout(out_dropout, DropPlace::mlp_out));
}

at::Tensor BlockMlp::activate(const std::vector<at::Tensor>& x) const {
  if (!gated) return kernels::activate(activation, x[0]);
  return x.size() == 1 ? kernels::gated(activation, x[0]) : kernels::gated(activation, x[0], x[1]);
}

}  // namespace trl::model
