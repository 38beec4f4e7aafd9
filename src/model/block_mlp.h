// The feed-forward part of a layer.
#pragma once
#include <ATen/ATen.h>

#include <vector>

#include "model/layer_context.h"

namespace trl::model {

struct BlockMlp {
  std::vector<kernels::Projection> in = {};  // gate, up; or one for both; or up alone, where there is no gate
  bool gated = true;
  kernels::Activation activation = kernels::Activation::silu;
  kernels::Projection out = {};
  double out_dropout = 0;  // rate in training

  // x: [tokens, hidden] -> [tokens, hidden]. again: as for kernels::linear().
  at::Tensor forward(const at::Tensor& x, const kernels::Again& again, const LayerContext& context) const;
  // The same from what `in` makes of x.
  at::Tensor from_wide(const std::vector<at::Tensor>& wide, const LayerContext& context) const;

 private:
  at::Tensor activate(const std::vector<at::Tensor>& x) const;
};

}  // namespace trl::model
