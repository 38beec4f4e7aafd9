// The feed-forward part of a layer.
#pragma once
#include <ATen/ATen.h>

#include <vector>

#include "model/layer_context.h"

namespace trl::model {

struct BlockMlp {
  std::vector<kernels::Projection> in = {};  // gate, up; or one for both; or only up, without a gate
  bool gated = true;
  kernels::Activation activation = kernels::Activation::silu;
  kernels::Projection out = {};
  double out_dropout = 0;  // rate in training

  // x: [tokens, hidden] -> [tokens, hidden], by tiles of tokens if there are many. again, wanted: as for
  // kernels::linear().
  at::Tensor forward(const at::Tensor& x, const kernels::Again& again, const LayerContext& context,
                     kernels::Wanted wanted = kernels::Wanted::values) const;
  // The same from the outputs of `in`, all tokens at once.
  at::Tensor from_wide(const std::vector<at::Tensor>& wide, const LayerContext& context,
                       kernels::Wanted wanted = kernels::Wanted::values) const;

  // Bytes per token of the intermediate values of this part's width that exist in backward at once for a
  // tile.
  int64_t bytes_per_token(at::ScalarType compute) const;

 private:
  at::Tensor whole(const at::Tensor& x, const kernels::Again& again, const LayerContext& context,
                   kernels::Wanted wanted) const;
  int64_t tile_tokens(int64_t tokens, const LayerContext& context) const;
  std::vector<const kernels::Parameter*> parameters(const LayerContext& context) const;
  at::Tensor activate(const std::vector<at::Tensor>& x) const;
};

}  // namespace trl::model
