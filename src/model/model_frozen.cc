// The layers below the first trained one: their output for a document never changes, so a batch is computed
// in such a way that other documents do not change it either.
#include <algorithm>

#include "kernels/gemm/gemm.h"
#include "kernels/path.h"
#include "model/model.h"

namespace trl::model {

namespace {

at::Tensor with_zeros(const at::Tensor& ids, int64_t count) {
  at::Tensor longer = at::zeros({ids.numel() + count}, at::kInt);
  longer.narrow(0, 0, ids.numel()).copy_(ids);
  return longer;
}

// Adds a last document of token 0, so that matrix products have whole tiles.
ForwardInput filled(const ForwardInput& input) {
  const int64_t tokens = input.input_ids.numel();
  const int64_t more = (kernels::kRowsTogether - tokens % kernels::kRowsTogether) % kernels::kRowsTogether;
  if (more == 0) return input;
  auto segments = std::make_shared<kernels::Segments>(*input.segments);
  segments->cu_seqlens.push_back(static_cast<int32_t>(tokens + more));
  segments->max_length = std::max(segments->max_length, more);
  if (!segments->prefix.empty()) segments->prefix.push_back(-1);
  segments->rows.clear();  // nothing computed here counts rows
  return {with_zeros(input.input_ids, more),
          with_zeros(input.position_ids, more),
          segments,
          {},
          input.first,
          input.reach};
}

}  // namespace

int64_t Model::frozen_layers(const Adapter* adapter) const {
  if (!embedding_->has_trainer()) return 0;
  return std::clamp<int64_t>(first_trained_layer(adapter), 0, std::ssize(layers_));
}

std::vector<Parameter*> Model::frozen_parameters() const {
  std::vector<Parameter*> all = parameters();
  all.resize(layer_parameters_[static_cast<size_t>(frozen_layers())]);
  if (const Adapter* const adapter = adapters_.trained()) {
    for (Parameter* table : adapter->kept_tables()) all.push_back(table);
  }
  return all;
}

at::Tensor Model::frozen_states(const ForwardInput& input, const ForwardOptions& options) const {
  check(input);
  return below(input, options, frozen_layers(adapter_of(options)));
}

at::Tensor Model::below(const ForwardInput& input, const ForwardOptions& options, int64_t layers) const {
  const at::NoGradGuard no_grad;
  const kernels::EachRowByItself by_itself;
  const bool fused = kernels::fused(device_) && options.attention == nullptr;
  const ForwardInput whole = fused ? filled(input) : input;
  LayerContext shared = context(whole, options);
  shared.tile_unit = 3 * kernels::kSumPiece;
  static_assert(3 * kernels::kSumPiece % kernels::kRowsTogether == 0);
  at::Tensor x = embed(whole, options, shared);
  for (int64_t i = 0; i < layers; ++i) {
    if (options.random) shared.random = part_of(*options.random, static_cast<size_t>(i));
    x = layers_[static_cast<size_t>(i)]->forward(x, shared).stream;
  }
  return x.narrow(0, 0, input.input_ids.numel());
}

}  // namespace trl::model
