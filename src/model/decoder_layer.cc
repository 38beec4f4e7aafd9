#include "model/decoder_layer.h"

namespace trl::model {

namespace {

// A norm costs little compared to the products that read it: it is computed again in backward.
kernels::Again again(const at::Tensor& stream, const Norm& norm) {
  if (norm.weight == nullptr) return {};
  return {[norm](const std::vector<at::Tensor>& from) { return kernels::norm(from[0], norm); }, {stream}};
}

// The results that are needed of an output that is only added to the stream, after the norm if there is one.
kernels::Wanted wanted_before(const Norm& norm, const LayerContext& context) {
  if (norm.weight != nullptr) return kernels::Wanted::values;
  return context.again ? kernels::Wanted::graph : kernels::Wanted::added;
}

}  // namespace

DecoderLayer::Result DecoderLayer::forward(const at::Tensor& x, const LayerContext& context) const {
  const Norm first_norm = context.placed(attention_norm), second_norm = context.placed(mlp_norm);
  const Norm last_norm = context.placed(mlp_post_norm);
  const auto [before, input] = residual(x, {}, first_norm);
  const auto wanted = parallel ? wanted_before(attention_post_norm, context) : kernels::Wanted::values;
  const at::Tensor attended = normed(attention.forward(input, again(before, first_norm), context, wanted),
                                     context.placed(attention_post_norm));
  if (parallel) {
    const bool own = second_norm.weight != nullptr;
    const BlockExperts::Result fed = feed(own ? normed(before, second_norm) : input,
                                          again(before, own ? second_norm : first_norm), context);
    const at::Tensor stream = kernels::add(before, attended, branch_scale);
    return {kernels::add(stream, normed(fed.y, last_norm), branch_scale), fed.router};
  }
  const auto [stream, h] = residual(before, attended, second_norm, branch_scale);
  const BlockExperts::Result fed = feed(h, again(stream, second_norm), context);
  return {kernels::add(stream, normed(fed.y, last_norm), branch_scale), fed.router};
}

BlockExperts::Result DecoderLayer::feed(const at::Tensor& x, const kernels::Again& recipe,
                                        const LayerContext& context) const {
  const kernels::Wanted wanted = wanted_before(mlp_post_norm, context);
  if (experts) return experts->forward(x, recipe, context, wanted);
  return {mlp.forward(x, recipe, context, wanted), {}};
}

std::vector<kernels::Projection*> DecoderLayer::projections() {
  std::vector<kernels::Projection*> all;
  for (kernels::Projection& p : attention.in) all.push_back(&p);
  all.push_back(&attention.out);
  BlockMlp& dense = experts ? experts->shared : mlp;
  for (kernels::Projection& p : dense.in) all.push_back(&p);
  if (dense.out.weight != nullptr) all.push_back(&dense.out);
  return all;
}

}  // namespace trl::model
