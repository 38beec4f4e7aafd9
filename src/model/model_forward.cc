// The forward of a model: the embedding, the layers, and where the graph of a backward begins.
#include <algorithm>

#include "base/error.h"
#include "kernels/gemm/gemm.h"
#include "memory/recompute.h"
#include "model/model.h"

namespace trl::model {

namespace {

// The number of rows that each token is a part of; empty: one each.
std::vector<int64_t> rows_of(const kernels::Segments& segments) {
  std::vector<int64_t> rows;
  for (size_t s = 0; s < segments.rows.size(); ++s)
    rows.insert(rows.end(), static_cast<size_t>(segments.cu_seqlens[s + 1] - segments.cu_seqlens[s]),
                segments.rows[s]);
  return rows;
}

}  // namespace

// Checks ids: the tokenizer may know more tokens than the embedding has rows.
void Model::check(const ForwardInput& input) const {
  check_files();
  const int64_t tokens = input.input_ids.numel();
  const bool fits = input.input_ids.scalar_type() == at::kInt &&
                    input.position_ids.scalar_type() == at::kInt && input.position_ids.numel() == tokens &&
                    tokens > 0 && input.segments != nullptr && !input.segments->cu_seqlens.empty() &&
                    input.segments->cu_seqlens.back() == tokens;
  if (!fits) fail(Status::invalid_argument, "ids, positions and segments of a batch do not fit together");
  const int32_t* ids = input.input_ids.data_ptr<int32_t>();
  for (int64_t i = 0; i < tokens; ++i) {
    if (ids[i] < 0 || ids[i] >= config().vocab_size) {
      fail(Status::invalid_argument, "token id {} is outside the vocabulary of {} tokens", ids[i],
           config().vocab_size);
    }
  }
  if (positions_ == nullptr) return;
  const int32_t* positions = input.position_ids.data_ptr<int32_t>();
  const int64_t last = *std::max_element(positions, positions + tokens);
  if (last >= config().max_position_embeddings) {
    fail(Status::invalid_argument, "position {} is beyond the {} positions that this model has learned", last,
         config().max_position_embeddings);
  }
}

LayerContext Model::context(const ForwardInput& input, const ForwardOptions& options) const {
  LayerContext context;
  context.wiring = wiring_of(adapter_of(options));
  context.term_random = options.random;
  context.compute = compute(options.compute);
  context.attention = options.attention;
  context.tiles = options.tiles;
  context.segments = input.segments;
  context.first = input.first;
  context.as_generated = options.as_generated;
  context.ropes = rope_tables_of(input.position_ids, input.reach);
  return context;
}

std::vector<RopeTables> Model::rope_tables_of(const at::Tensor& position_ids, int64_t reach) const {
  std::vector<RopeTables> tables;
  const auto add = [&](const RopeConfig& rope) {
    const RopeTables host = rope_tables(rope, config().head_dim, position_ids, reach);
    tables.push_back({host.cos.to(device_), host.sin.to(device_)});
  };
  if (config().rope.type != "none") add(config().rope);
  if (config().sliding_rope) add(*config().sliding_rope);
  return tables;
}

// An adapter that is merged is in the weights.
const Wiring* Model::wiring_of(const Adapter* adapter) const {
  return adapter != nullptr && adapter != adapters_.merged() ? &adapter->wiring() : nullptr;
}

UsedHead Model::head_with(const Adapter* adapter) const {
  const Wiring* const wiring = wiring_of(adapter);
  if (wiring == nullptr) return {own_head()};
  return {wiring->head != nullptr ? wiring->head : own_head(), &wiring->head_rows};
}

// The anchor makes the result part of a graph although ids and weights are not autograd's.
at::Tensor Model::embed(const ForwardInput& input, const ForwardOptions& options,
                        const LayerContext& context) const {
  const kernels::IndependentRows independent(context.as_generated);
  at::Tensor anchor = at::zeros({}, at::kFloat);
  anchor.set_requires_grad(at::GradMode::is_enabled());
  kernels::Noise noise = options.noise;
  noise.row = input.first;
  const bool widened = embedding_ == head_ && embedding_->dtype() != dtype_;
  at::Tensor x = kernels::embedding(anchor, input.input_ids, *context.placed(embedding_),
                                    {.scale = config().embedding_scale,
                                     .noise = noise,
                                     .multiplier = config().embedding_multiplier,
                                     .low_rank = context.terms_of(embedding_),
                                     .own_rows = context.wiring ? &context.wiring->embedding_rows : nullptr,
                                     .type = widened ? std::optional(dtype_) : std::nullopt});
  if (positions_ != nullptr)
    x = kernels::add(x, kernels::embedding(anchor, input.position_ids, *context.placed(positions_)));
  if (!options.random) return x;
  const uint64_t key = part_of(*options.random, layers_.size());
  return kernels::dropout(x, {config().dropout.embedding, key, input.first});
}

bool Model::trains(size_t begin, size_t end) const {
  return std::any_of(loaded_.all.begin() + static_cast<std::ptrdiff_t>(begin),
                     loaded_.all.begin() + static_cast<std::ptrdiff_t>(end),
                     [](const auto& parameter) { return parameter->has_gradient(); });
}

int64_t Model::first_trained_layer(const Adapter* adapter) const {
  const int64_t count = config().num_hidden_layers;
  const int64_t first = adapter != nullptr ? std::min(adapter->first_trained_layer(), count) : count;
  if (trains(0, layer_parameters_[0])) return -1;
  for (int64_t i = 0; i < first; ++i) {
    const auto layer = static_cast<size_t>(i);
    if (trains(layer_parameters_[layer], layer_parameters_[layer + 1])) return i;
  }
  return first;
}

// Whether the graph may begin inside the layer; a layer of experts records all of its operations.
bool Model::begins_in_projections(const Adapter* adapter, int64_t index) const {
  const auto layer = static_cast<size_t>(index);
  return adapter != nullptr && adapter->trains_only_terms(index) && !layers_[layer]->experts &&
         !trains(layer_parameters_[layer], layer_parameters_[layer + 1]);
}

// The graph begins at the first trained parameter, in the projection itself if possible: nothing below is
// kept, and backward does not reach it.
Output Model::forward(const ForwardInput& input, const ForwardOptions& options) const {
  check(input);
  const Adapter* const adapter = adapter_of(options);
  LayerContext shared = context(input, options);
  const int64_t first = at::GradMode::is_enabled() ? first_trained_layer(adapter) : -1;
  const bool upon_frozen =
      adapter != nullptr && adapter == adapters_.trained() && config().experts.count == 0;
  const int64_t frozen = upon_frozen ? frozen_layers(adapter) : 0;
  at::Tensor x = input.states;
  if (frozen == 0) {
    const at::AutoGradMode recording(at::GradMode::is_enabled() && first < 0);
    x = embed(input, options, shared);
  } else if (!x.defined()) {
    x = below(input, options, frozen);
  }
  std::vector<at::Tensor> routers;
  for (int64_t i = frozen; i < std::ssize(layers_); ++i) {
    const DecoderLayer* const unit = layers_[static_cast<size_t>(i)].get();
    if (options.random) shared.random = part_of(*options.random, static_cast<size_t>(i));
    if (i == first && !begins_in_projections(adapter, first)) x = kernels::recorded(x);
    const at::AutoGradMode recording(at::GradMode::is_enabled() && i >= first);
    const std::vector<at::Tensor> outputs = memory::recompute(
        x, options.recompute.of_layer(i),
        [unit, shared](const at::Tensor& stream) {
          LayerContext own = shared;
          own.again = memory::computes_again();
          const DecoderLayer::Result result = unit->forward(stream, own);
          return result.router.defined() ? std::vector{result.stream, result.router}
                                         : std::vector{result.stream};
        },
        i == first);
    x = outputs[0];
    if (outputs.size() > 1)
      routers.push_back(options.router_tokens > 0 ? outputs[1].narrow(0, 0, options.router_tokens)
                                                  : outputs[1]);
  }
  if (first >= std::ssize(layers_)) x = kernels::recorded(x);
  Output output{kernels::norm(x, shared.placed(norm_)), {}, head_with(adapter)};
  if (options.router_loss && !routers.empty())
    output.router_loss = kernels::balance_loss(routers, config().experts.chosen, rows_of(*input.segments));
  check_files();
  return output;
}

std::vector<at::Tensor> Model::hidden_states(const ForwardInput& input, const ForwardOptions& options) const {
  check(input);
  const LayerContext shared = context(input, options);
  std::vector<at::Tensor> states{embed(input, {}, shared)};
  for (const auto& layer : layers_) states.push_back(layer->forward(states.back(), shared).stream);
  states.back() = kernels::norm(states.back(), shared.placed(norm_));
  return states;
}

}  // namespace trl::model
