// One decoder layer: attention and a feed-forward part, each with the norms that the family has, added to the
// stream. An independent unit: it takes the data that a batch shares from the context, and can be run, run
// again, or run against a cache without its neighbours.
#pragma once
#include <ATen/ATen.h>

#include <optional>
#include <vector>

#include "model/block_attention.h"
#include "model/block_experts.h"
#include "model/block_mlp.h"

namespace trl::model {

struct DecoderLayer {
  BlockAttention attention;
  BlockMlp mlp;
  std::optional<BlockExperts> experts;      // instead of mlp
  Norm attention_norm, mlp_norm;            // applied to the inputs of the parts
  Norm attention_post_norm, mlp_post_norm;  // applied to the outputs of the parts
  double branch_scale = 1;                  // factor of the parts' outputs
  bool parallel = false;                    // both parts read the same stream

  struct Result {
    at::Tensor stream;  // [tokens, hidden]
    at::Tensor router;  // with experts: [tokens, experts], before the softmax; else undefined
  };
  Result forward(const at::Tensor& x, const LayerContext& context) const;
  std::vector<kernels::Projection*> projections();

 private:
  BlockExperts::Result feed(const at::Tensor& x, const kernels::Again& recipe,
                            const LayerContext& context) const;
};

}  // namespace trl::model
