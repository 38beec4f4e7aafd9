#include "model/decoder_layer.h"

#include "tensor/counted.h"

namespace trl::model {

namespace {

// Norm and gated activation cost little beside the products that read them: they are made again in backward.
kernels::Again norm_again(const at::Tensor& stream, tensor::Parameter& norm, double eps) {
  return [kept = stream.detach(), &norm, eps] { return kernels::rms_norm(kept, norm, eps); };
}
kernels::Again swiglu_again(const at::Tensor& gate, const at::Tensor& up) {
  return [gate = gate.detach(), up = up.detach()] { return kernels::swiglu(gate, up); };
}

}  // namespace

at::Tensor DecoderLayer::forward(const at::Tensor& x, const LayerContext& context) {
  const auto [before, input] = kernels::residual_norm(x, {}, *input_norm, shape_.eps);
  const auto [stream, h] = kernels::residual_norm(
      before, attend(input, norm_again(before, *input_norm, shape_.eps), context), *mlp_norm, shape_.eps);
  const std::vector<at::Tensor> mlp = project(h, {gate_proj.get(), up_proj.get()}, context.compute,
                                              norm_again(stream, *mlp_norm, shape_.eps));
  return kernels::add(stream, down_proj->forward(kernels::swiglu(mlp[0], mlp[1]), context.compute,
                                                 swiglu_again(mlp[0], mlp[1])));
}

at::Tensor DecoderLayer::heads_of(const at::Tensor& x, int64_t heads, tensor::Parameter* norm) const {
  const at::Tensor h = x.view({x.size(0), heads, shape_.head_dim});
  return norm != nullptr ? kernels::rms_norm(h, *norm, shape_.eps) : h;
}

kernels::AttentionOptions DecoderLayer::attention_of(const LayerContext& context) const {
  kernels::AttentionOptions options = shape_.attention;
  options.plugin = context.attention;
  return options;
}

at::Tensor DecoderLayer::attend(const at::Tensor& x, const kernels::Again& again,
                                const LayerContext& context) {
  const int64_t tokens = x.size(0);
  const std::vector<at::Tensor> qkv =
      project(x, {q_proj.get(), k_proj.get(), v_proj.get()}, context.compute, again);
  const auto [q, k] =
      kernels::rope(heads_of(qkv[0], shape_.heads, q_norm), heads_of(qkv[1], shape_.kv_heads, k_norm),
                    context.rope.cos, context.rope.sin);
  const at::Tensor v = qkv[2].view({tokens, shape_.kv_heads, shape_.head_dim});
  const at::Tensor out = context.cache != nullptr
                             ? attend_cached(q, k, v, context)
                             : kernels::attention(q, k, v, context.segments, attention_of(context));
  return o_proj->forward(out.view({tokens, shape_.heads * shape_.head_dim}), context.compute, {});
}

at::Tensor DecoderLayer::attend_cached(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                       const LayerContext& context) {
  LayerCache& cache = *context.cache;
  cache.write(context.past, k, v);
  if (context.past == 0) return kernels::attention(q, k, v, context.segments, shape_.attention);
  // A later call brings one position: its query against all that is kept.
  at::Tensor out = tensor::empty_like(q, tensor::MemoryKind::workspace);
  at::Tensor row = out.select(0, 0);
  kernels::attention_decode(q.select(0, 0), cache.pages, context.past + 1, shape_.attention, row);
  return out;
}

}  // namespace trl::model
