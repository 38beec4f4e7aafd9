// The attention of a layer: projections, norms of queries and keys, rotary embedding, attention, projection.
#pragma once
#include <ATen/ATen.h>

#include <vector>

#include "model/layer_context.h"
#include "model/norm.h"

namespace trl::model {

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

}  // namespace trl::model
