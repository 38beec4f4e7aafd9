#include "model/decoder_layer.h"

#include "kernels/fork.h"
#include "tensor/counted.h"
#include "tensor/device.h"

namespace trl::model {

namespace {

void append_rows(const at::Tensor& buffer, const at::Tensor& rows, int64_t at) {
  tensor::copy(rows, buffer.narrow(0, at, rows.size(0)));
}

}  // namespace

at::Tensor DecoderLayer::forward(const at::Tensor& x, const LayerContext& context) {
  const auto [before, input] = kernels::fork(x);
  const auto [stream, between] =
      kernels::fork(kernels::add(before, attend(kernels::rms_norm(input, *input_norm, shape_.eps), context)));
  const at::Tensor h = kernels::rms_norm(between, *mlp_norm, shape_.eps);
  const std::vector<at::Tensor> mlp = project(h, {gate_proj.get(), up_proj.get()}, context.compute);
  return kernels::add(stream, down_proj->forward(kernels::swiglu(mlp[0], mlp[1]), context.compute));
}

at::Tensor DecoderLayer::rotate(const at::Tensor& x, int64_t heads, tensor::Parameter* norm,
                                const RopeTables& rope) {
  at::Tensor h = x.view({x.size(0), heads, shape_.head_dim});
  if (norm != nullptr) h = kernels::rms_norm(h, *norm, shape_.eps);
  return kernels::rope(h, rope.cos, rope.sin);
}

at::Tensor DecoderLayer::attend(const at::Tensor& x, const LayerContext& context) {
  const int64_t tokens = x.size(0);
  const std::vector<at::Tensor> qkv = project(x, {q_proj.get(), k_proj.get(), v_proj.get()}, context.compute);
  const at::Tensor q = rotate(qkv[0], shape_.heads, q_norm, context.rope);
  const at::Tensor k = rotate(qkv[1], shape_.kv_heads, k_norm, context.rope);
  const at::Tensor v = qkv[2].view({tokens, shape_.kv_heads, shape_.head_dim});
  const at::Tensor out = context.cache != nullptr
                             ? attend_cached(q, k, v, context)
                             : kernels::attention(q, k, v, context.segments, shape_.attention);
  return o_proj->forward(out.view({tokens, shape_.heads * shape_.head_dim}), context.compute);
}

at::Tensor DecoderLayer::attend_cached(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                       const LayerContext& context) {
  LayerCache& cache = *context.cache;
  append_rows(cache.keys, k, context.past);
  append_rows(cache.values, v, context.past);
  if (context.past == 0) return kernels::attention(q, k, v, context.segments, shape_.attention);
  // A later call brings one position: its query against all that is kept.
  at::Tensor out = tensor::empty_like(q, tensor::MemoryKind::workspace);
  at::Tensor row = out.select(0, 0);
  kernels::attention_decode(q.select(0, 0), cache.keys, cache.values, context.past + 1, shape_.attention,
                            row);
  return out;
}

}  // namespace trl::model
