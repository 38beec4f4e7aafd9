// One decoder layer: x + attention(norm(x)), then x + mlp(norm(x)). A unit by itself: it owns its slots,
// takes what a batch shares from the context, and can be run, run again, or run against a cache without its
// neighbours.
#pragma once
#include <ATen/ATen.h>

#include <memory>

#include "kernels/kernels.h"
#include "model/kv_cache.h"
#include "model/linear.h"
#include "model/rope.h"

namespace trl::model {

struct LayerContext {
  at::ScalarType compute = at::kFloat;
  kernels::SegmentsPtr segments;
  RopeTables rope;
  kernels::AttentionPluginPtr attention = nullptr;  // the built-in one
  LayerCache* cache = nullptr;  // decoding: keys and values are kept in rows past, past + 1, ...
  int64_t past = 0;             // positions in the cache before this call
};

struct LayerShape {
  int64_t heads, kv_heads, head_dim;
  double eps;
  kernels::AttentionOptions attention;
};

class DecoderLayer {
 public:
  explicit DecoderLayer(const LayerShape& shape) : shape_(shape) {}

  std::unique_ptr<Linear> q_proj, k_proj, v_proj, o_proj;
  std::unique_ptr<Linear> gate_proj, up_proj, down_proj;
  tensor::Parameter* input_norm = nullptr;
  tensor::Parameter* mlp_norm = nullptr;
  tensor::Parameter* q_norm = nullptr;  // null: the family has none
  tensor::Parameter* k_norm = nullptr;

  at::Tensor forward(const at::Tensor& x, const LayerContext& context);  // [tokens, hidden]

 private:
  kernels::AttentionOptions attention_of(const LayerContext& context) const;
  at::Tensor attend(const at::Tensor& x, const kernels::Again& again, const LayerContext& context);
  at::Tensor heads_of(const at::Tensor& x, int64_t heads, tensor::Parameter* norm) const;
  at::Tensor attend_cached(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const LayerContext& context);

  LayerShape shape_;
};

}  // namespace trl::model
