#include "model/block_attention.h"

#include "tensor/memory/counted.h"

namespace trl::model {

at::Tensor BlockAttention::forward(const at::Tensor& x, const kernels::Again& again,
                                   const LayerContext& context, kernels::Wanted wanted) const {
  std::vector<at::Tensor> qkv = kernels::linear(x, context.placed(in), context.compute, again);
  if (in.size() == 1) qkv = split(qkv[0]);
  at::Tensor q = heads_of(qkv[0], heads, context.placed(q_norm)),
             k = heads_of(qkv[1], kv_heads, context.placed(k_norm));
  if (rope >= 0) {
    const RopeTables& tables = context.ropes[static_cast<size_t>(rope)];
    std::tie(q, k) = kernels::rope(q, k, tables.cos, tables.sin, rope_layout);
  }
  const at::Tensor attended = attend(q, k, heads_of(qkv[2], kv_heads, {}), context);
  const at::Tensor y = kernels::linear(attended.view({x.size(0), heads * head_dim}), context.placed(out),
                                       context.compute, {}, wanted)[0];
  return kernels::dropout(y, context.dropout(out_dropout, DropPlace::attention_out));
}

std::vector<at::Tensor> BlockAttention::split(const at::Tensor& qkv) const {
  if (!by_head)
    return kernels::split_columns(qkv, {heads * head_dim, kv_heads * head_dim, kv_heads * head_dim});
  return kernels::split_columns(qkv.view({-1, 3 * head_dim}), {head_dim, head_dim, head_dim});
}

// x: [tokens, count * head_dim] or [tokens * count, head_dim]
at::Tensor BlockAttention::heads_of(const at::Tensor& x, int64_t count, const Norm& norm) const {
  if (whole_norms) return normed(x, norm).view({-1, count, head_dim});
  return normed(x.view({-1, count, head_dim}), norm);
}

at::Tensor BlockAttention::attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                  const LayerContext& context) const {
  if (context.cache == nullptr) {
    kernels::AttentionOptions chosen = options;
    chosen.plugin = context.attention;
    chosen.dropout = context.dropout(weight_dropout, DropPlace::attention_weights);
    return kernels::attention(q, k, v, context.segments, chosen);
  }
  context.cache->write(context.past, k, v);
  if (context.past == 0) return kernels::attention(q, k, v, context.segments, options);
  // A later call brings one position: its query attends to all cached ones.
  at::Tensor attended = tensor::empty_like(q, tensor::MemoryKind::workspace);
  at::Tensor row = attended.select(0, 0);
  kernels::attention_decode(q.select(0, 0), context.cache->pages, context.past + 1, options, row);
  return attended;
}

}  // namespace trl::model
