// One decoder layer: attention and a feed-forward part, each with the norms that the family has, added to the
// stream. A unit by itself: it takes what a batch shares from the context, and can be run, run again, or run
// against a cache without its neighbours.
#pragma once
#include <ATen/ATen.h>

#include <vector>

#include "model/block_attention.h"
#include "model/block_mlp.h"

namespace trl::model {

struct DecoderLayer {
  BlockAttention attention;
  BlockMlp mlp;
  Norm attention_norm, mlp_norm;            // of what the parts read
  Norm attention_post_norm, mlp_post_norm;  // of what they add to the stream
  bool parallel = false;                    // both read the same stream

  at::Tensor forward(const at::Tensor& x, const LayerContext& context) const;  // [tokens, hidden]
  std::vector<kernels::Projection*> projections();
};

}  // namespace trl::model
