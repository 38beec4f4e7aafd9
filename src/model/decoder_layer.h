// One decoder layer: attention and a feed-forward part, each with the norms that the family has, added to the
// stream. A unit by itself: it takes what a batch shares from the context, and can be run, run again, or run
// against a cache without its neighbours.
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
  std::optional<BlockExperts> experts;      // in place of mlp
  Norm attention_norm, mlp_norm;            // of what the parts read
  Norm attention_post_norm, mlp_post_norm;  // of what they add to the stream
  double branch_scale = 1;                  // of what the parts add to it
  bool parallel = false;                    // both read the same stream

  struct Result {
    at::Tensor stream;  // [tokens, hidden]
    at::Tensor router;  // of experts: [tokens, experts], before the softmax; else undefined
  };
  Result forward(const at::Tensor& x, const LayerContext& context) const;
  std::vector<kernels::Projection*> projections();

 private:
  BlockExperts::Result feed(const at::Tensor& x, const kernels::Again& recipe,
                            const LayerContext& context) const;
};

}  // namespace trl::model
