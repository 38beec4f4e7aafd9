#include "model/block_experts.h"

namespace trl::model {

// All dense products that read x are in one op.
BlockExperts::Result BlockExperts::forward(const at::Tensor& x, const kernels::Again& again,
                                           const LayerContext& context, kernels::Wanted wanted) const {
  std::vector<kernels::Projection> in = {router};
  if (shared_gate.weight != nullptr) {
    in.push_back(shared_gate);
    in.insert(in.end(), shared.in.begin(), shared.in.end());
  }
  const std::vector<at::Tensor> read = kernels::linear(x, context.placed(in), context.compute, again);
  const kernels::Routing routing = kernels::route(read[0], chosen, normalised);
  at::Tensor y =
      kernels::experts(x, routing, context.placed(weights), activation, context.compute, again, wanted);
  if (shared_gate.weight != nullptr) {
    const std::vector<at::Tensor> wide(read.begin() + 2, read.end());
    y = kernels::add_gated(y, read[1], shared.from_wide(wide, context));
  }
  return {y, read[0]};
}

}  // namespace trl::model
