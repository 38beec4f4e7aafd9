// One decoder layer and its parts.
#pragma once
#include <ATen/ATen.h>
#include <optional>
#include <vector>

#include "kernels/experts/experts.h"
#include "kernels/kernels.h"
#include "model/layer/layer_context.h"

namespace trl::model {

// A norm that a family may lack: then it has no weight and returns its input.
using kernels::Norm;

inline at::Tensor normed(const at::Tensor& x, const Norm& norm) {
  return norm.weight != nullptr ? kernels::norm(x, norm) : x;
}

// stream + scale * branch, and the norm of that; without a branch (undefined) the stream and its norm.
inline kernels::Residual residual(const at::Tensor& stream, const at::Tensor& branch, const Norm& norm,
                                  double scale = 1) {
  if (norm.weight != nullptr) return kernels::residual_norm(stream, branch, norm, scale);
  const at::Tensor sum = branch.defined() ? kernels::add(stream, branch, scale) : stream;
  return {sum, sum};
}

// The feed-forward part of a layer.
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

// The attention of a layer: projections, norms of queries and keys, rotary embedding, attention, projection.
struct BlockAttention {
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  std::vector<kernels::Projection> in = {};  // q, k, v; or one for all three
  bool by_head = false;  // with one projection: rows are q, k and v of the first head, then of the second ...
  kernels::Projection out = {};
  Norm q_norm = {}, k_norm = {};
  bool whole_norms = false;  // norms are over all heads of a position at once
  int rope = 0;              // index into the context's tables; -1: none
  kernels::RopeLayout rope_layout = kernels::RopeLayout::halves;
  kernels::AttentionOptions options = {};
  double weight_dropout = 0, out_dropout = 0;  // rates in training

  // x: [tokens, hidden] -> [tokens, hidden]. again, wanted: as for kernels::linear().
  at::Tensor forward(const at::Tensor& x, const kernels::Again& again, const LayerContext& context,
                     kernels::Wanted wanted = kernels::Wanted::values) const;

 private:
  std::vector<at::Tensor> split(const at::Tensor& qkv) const;
  at::Tensor heads_of(const at::Tensor& x, int64_t count, const Norm& norm) const;
  at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                    const LayerContext& context) const;
};

// The feed-forward part of a layer as a mixture of experts: a router, the experts, and if the family has one,
// an expert that every token uses.
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

// One decoder layer: attention and a feed-forward part, each with the norms that the family has, added to the
// stream. An independent unit: it takes the data that a batch shares from the context, and can be run, run
// again, or run against a cache without its neighbours.
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
