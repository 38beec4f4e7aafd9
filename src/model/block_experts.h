// The feed-forward part of a layer as a mixture of experts: a router, the experts, and if the family has one,
// an expert that every token uses.
#pragma once
#include <ATen/ATen.h>

#include "kernels/experts/experts.h"
#include "model/block_mlp.h"

namespace trl::model {

struct BlockExperts {
  kernels::Projection router = {};
  kernels::ExpertWeights weights = {};
  int64_t chosen = 1;       // experts for each token
  bool normalised = false;  // their shares add up to 1
  kernels::Activation activation = kernels::Activation::silu;
  kernels::Projection shared_gate = {};  // one number per token; without a weight there is no shared expert
  BlockMlp shared = {};

  struct Result {
    at::Tensor y;       // [tokens, hidden]
    at::Tensor router;  // [tokens, experts], before the softmax
  };
  // x: [tokens, hidden]. again, wanted: as for kernels::linear().
  Result forward(const at::Tensor& x, const kernels::Again& again, const LayerContext& context,
                 kernels::Wanted wanted = kernels::Wanted::values) const;
};

}  // namespace trl::model
