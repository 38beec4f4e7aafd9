#include "model/model.h"

#include <ATen/CPUGeneratorImpl.h>
#include <algorithm>

#include "base/error.h"
#include "kernels/gemm/gemm.h"
#include "memory/recompute.h"
#include "model/config/families.h"
#include "model/files/open.h"
#include "model/weights/initial_values.h"
#include "tensor/device.h"
#include "tensor/memory/counted.h"
#include "tensor/memory/rehearsal.h"
#include "tensor/threads/parallel.h"

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

Model::Model(ModelFiles files, std::shared_ptr<const WeightSource> source, at::ScalarType dtype,
             at::Device device, const config::Quantization& quantization, Held held, base::LogSink* log,
             uint64_t seed)
    : files_(std::move(files)),
      dtype_(dtype),
      device_(device),
      generator_(at::detail::createCPUGenerator(seed)) {
  Loader loader(config(), *source, dtype, device, quantization, held, loaded_);
  embedding_ = loader.embedding();
  positions_ = loader.positions();
  for (int64_t i = 0; i < config().num_hidden_layers; ++i) {
    layer_parameters_.push_back(loaded_.all.size());
    layers_.push_back(loader.layer(i));
  }
  layer_parameters_.push_back(loaded_.all.size());
  norm_ = loader.final_norm();
  head_ = config().labels > 0 ? loader.score(generator_) : loader.head(embedding_);
  carried_ = loader.carried();
  source->check();
  if (!carried_.empty() || held != Held::numbers) source_ = std::move(source);
  loader.report_others(log);
  adapters_ = Adapters(slots(), std::string(config().family->model_type), device_);
}

Model::~Model() = default;

std::vector<std::string> Model::align_special_tokens(const engine::SpecialTokens& tokens) {
  base::Json* const generation = config().labels > 0 ? nullptr : &files_.generation_config_json;
  std::vector<std::string> changes = model::align_special_tokens(files_.config_json, generation, tokens);
  files_.end_ids = parse_end_ids(files_.generation_config_json, "generation_config.json");
  return changes;
}

void Model::resize_embeddings(int64_t rows) {
  if (rows == config().vocab_size) return;
  for (Parameter* const table : {embedding_, head_})
    if (table->encoded() != nullptr) table->decode();
  EmbeddingRows resize(rows, generator_);
  const auto on = [&](at::Tensor values) { return device_.is_cpu() ? values : values.to(device_); };
  embedding_->replace(on(resize.embedding(tensor::on_host(*embedding_->read()))));
  if (embedding_->padding_row >= rows) embedding_->padding_row = -1;
  if (head_ != embedding_ && config().labels == 0)
    head_->replace(on(resize.head(tensor::on_host(*head_->read()))));
  adapters_.resized(rows);
  files_.config.vocab_size = rows;
  const char* text = config().family->text;
  base::Json& json = text == nullptr ? files_.config_json : files_.config_json[text];
  json[config().family->sizes.vocab.key] = rows;
}

void Model::widen_head() {
  if (head_->encoded() != nullptr || head_->dtype() == at::kFloat) return;
  const at::Tensor values = tensor::empty(head_->shape(), at::kFloat, tensor::MemoryKind::weights, device_);
  if (tensor::Rehearsal::current() == nullptr) tensor::copy_in_parts(values, *head_->read());
  head_->replace(values);
}

std::vector<Parameter*> Model::parameters() const {
  std::vector<Parameter*> all;
  for (const auto& parameter : loaded_.all) all.push_back(parameter.get());
  return all;
}

std::vector<Model::Carried> Model::carried() const {
  std::vector<Carried> all;
  for (const std::string& name : carried_) all.push_back({name, source_->raw(name)});
  return all;
}

const std::vector<StoredPart>* Model::parts_of(const Parameter& parameter) const {
  const auto parts = loaded_.parts.find(&parameter);
  return parts != loaded_.parts.end() ? &parts->second : nullptr;
}

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

std::shared_ptr<void> Model::compute_head_in_float32() {
  ++float32_heads_;
  return {this, [](Model* model) { --model->float32_heads_; }};
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

using adapter::ModuleKind;

// bias: may be null.
Slot Model::slot(Parameter* weight, Parameter* bias, ModuleKind kind, int64_t layer) const {
  Slot slot{.layer = layer, .weight = weight, .bias = bias};
  slot.module.name = module_name(loaded_.names.at(weight), *config().family);
  slot.module.kind = kind;
  slot.module.bias = bias != nullptr;
  return slot;
}

void Model::add_expert_slots(const BlockExperts& experts, int64_t index, std::vector<Slot>& slots) const {
  const auto add_matrices = [&](Parameter* weight) {
    Slot& added = slots.emplace_back(slot(weight, nullptr, ModuleKind::experts, index));
    added.module.experts = weight->size(0);
    added.module.out = weight->size(1);
    added.module.in = weight->size(2);
    added.takes_terms = true;
  };
  const auto add_router = [&] {
    Slot& added = slots.emplace_back(slot(experts.router.weight, nullptr, ModuleKind::router, index));
    const std::string experts_name = module_name(loaded_.names.at(experts.weights.gate_up), *config().family);
    // The name differs from the one in files.
    added.module.name = experts_name.substr(0, experts_name.rfind(".experts.")) + ".gate";
    added.module.in = experts.router.in();
    added.module.out = experts.router.out();
    added.takes_terms = true;
  };
  const bool router_last = config().family->router_last;
  if (!router_last) add_router();
  add_matrices(experts.weights.gate_up);
  add_matrices(experts.weights.down);
  if (router_last) add_router();
}

void Model::add_layer_slots(int64_t index, std::vector<Slot>& slots) const {
  const DecoderLayer& layer = *layers_[static_cast<size_t>(index)];
  const auto add_projection = [&](const kernels::Projection& p) {
    Slot& added = slots.emplace_back(
        slot(p.weight, p.bias, p.transposed ? ModuleKind::conv1d : ModuleKind::linear, index));
    added.module.in = p.in();
    added.module.out = p.out();
    added.takes_terms = true;
  };
  const auto add_norm = [&](const Norm& norm) {
    if (norm.weight != nullptr) slots.push_back(slot(norm.weight, norm.bias, ModuleKind::other, index));
  };
  const BlockAttention& attention = layer.attention;
  const bool out_first = config().family->attention_out_first;
  if (out_first) add_projection(attention.out);
  for (const kernels::Projection& p : attention.in) add_projection(p);
  if (!out_first) add_projection(attention.out);
  add_norm(attention.q_norm);
  add_norm(attention.k_norm);
  if (layer.experts) add_expert_slots(*layer.experts, index, slots);
  const BlockMlp& mlp = layer.experts ? layer.experts->shared : layer.mlp;
  for (const kernels::Projection& p : mlp.in) add_projection(p);
  if (mlp.out.weight != nullptr) add_projection(mlp.out);
  if (layer.experts && layer.experts->shared_gate.weight != nullptr)
    add_projection(layer.experts->shared_gate);
  for (const Norm* norm :
       {&layer.attention_norm, &layer.attention_post_norm, &layer.mlp_norm, &layer.mlp_post_norm})
    add_norm(*norm);
}

// Returns the slots in the order of the modules in transformers' class: adapters draw their random numbers in
// that order.
std::vector<Slot> Model::slots() const {
  std::vector<Slot> all;
  const auto table = [&](Parameter* weight) -> Slot& {
    Slot& added = all.emplace_back(slot(weight, nullptr, ModuleKind::embedding, -1));
    added.module.in = weight->size(0);
    added.module.out = weight->size(1);
    return added;
  };
  table(embedding_).takes_terms = true;
  all.back().takes_rows = true;
  if (positions_ != nullptr) table(positions_);
  const int64_t layers = config().num_hidden_layers;
  for (int64_t i = 0; i < layers; ++i) add_layer_slots(i, all);
  all.push_back(slot(norm_.weight, norm_.bias, ModuleKind::other, layers));
  Slot& head = all.emplace_back(slot(head_, nullptr, ModuleKind::linear, layers));
  if (head_ == embedding_) head.module.name = config().family->names.head;
  head.module.in = head_->size(1);
  head.module.out = head_->size(0);
  head.module.head = true;
  head.module.tied = head_ == embedding_;
  head.takes_rows = config().labels == 0;
  return all;
}

}  // namespace trl::model
