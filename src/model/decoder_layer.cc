#include "model/decoder_layer.h"

namespace trl::model {

namespace {

// A norm costs little beside the products that read it: it is made again in backward.
kernels::Again again(const at::Tensor& stream, const Norm& norm) {
  if (!norm) return {};
  return [kept = stream.detach(), norm] { return norm(kept); };
}

}  // namespace

at::Tensor DecoderLayer::forward(const at::Tensor& x, const LayerContext& context) const {
  const auto [before, input] = attention_norm.after(x, {});
  const at::Tensor attended =
      attention_post_norm(attention.forward(input, again(before, attention_norm), context));
  if (parallel) {
    const Norm& norm = mlp_norm ? mlp_norm : attention_norm;
    const at::Tensor h = mlp_norm ? mlp_norm(before) : input;
    const at::Tensor branch = mlp_post_norm(mlp.forward(h, again(before, norm), context));
    return kernels::add(kernels::add(before, attended), branch);
  }
  const auto [stream, h] = mlp_norm.after(before, attended);
  return kernels::add(stream, mlp_post_norm(mlp.forward(h, again(stream, mlp_norm), context)));
}

std::vector<kernels::Projection*> DecoderLayer::projections() {
  std::vector<kernels::Projection*> all;
  for (kernels::Projection& p : attention.in) all.push_back(&p);
  all.push_back(&attention.out);
  for (kernels::Projection& p : mlp.in) all.push_back(&p);
  all.push_back(&mlp.out);
  return all;
}

}  // namespace trl::model
