#include "model/decoder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/number.h"
#include "memory/checkpoint.h"
#include "model/embedding_rows.h"
#include "model/special_tokens.h"
#include "tensor/counted.h"
#include "tensor/device.h"

namespace trl::model {

namespace {

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

// Of "model.layers.3.mlp.up_proj.weight" and "blk.3.ffn_up.weight" 3; -1: of no layer.
int64_t layer_of(std::string_view name) {
  for (const std::string_view start : {"model.layers.", "blk."}) {
    if (!name.starts_with(start)) continue;
    const std::string_view rest = name.substr(start.size());
    return base::parse_int64(rest.substr(0, rest.find('.'))).value_or(-1);
  }
  return -1;
}

}  // namespace

// Takes tensors from the source one by one, in the order in which they become parameters.
class Decoder::Loader {
 public:
  Loader(Decoder& decoder, const WeightSource& source)
      : decoder_(decoder), source_(source), tensors_(std::ssize(source.others({}))) {}

  Parameter* load(const std::string& name, const std::vector<int64_t>& shape, bool decay) {
    const std::vector<int64_t>* found = source_.shape(name);
    if (found == nullptr) fail(Status::format, "{} is missing", source_.place(name));
    if (*found != shape) {
      fail(Status::format, "{} has shape {}, {} for {}", source_.place(name), shape_text(*found),
           source_.asks(name), shape_text(shape));
    }
    base::progress("weights", static_cast<int64_t>(used_.size()), tensors_);
    used_.insert(name);
    auto parameter = std::make_unique<Parameter>();
    parameter->name = name;
    parameter->value = tensor::empty(shape, decoder_.dtype_, tensor::MemoryKind::weights, decoder_.device_);
    parameter->decay = decay;
    read(name, parameter->value);
    return decoder_.parameters_.emplace_back(std::move(parameter)).get();
  }
  Parameter* matrix(const std::string& name, int64_t rows, int64_t columns) {
    return load(name + ".weight", {rows, columns}, true);
  }
  Parameter* norm(const std::string& name, int64_t width) { return load(name + ".weight", {width}, false); }
  std::unique_ptr<Linear> linear(const std::string& name, int64_t in, int64_t out, bool bias) {
    Parameter* weight = matrix(name, out, in);
    return std::make_unique<DenseLinear>(weight, bias ? load(name + ".bias", {out}, false) : nullptr);
  }

  // A tied head that is stored as well must be the embedding: training would silently drop one of the two.
  void check_tied(const std::string& name, const Parameter& embedding) {
    const std::vector<int64_t>* shape = source_.shape(name);
    if (shape == nullptr) return;
    used_.insert(name);
    bool same = *shape == embedding.value.sizes().vec();
    if (same) {
      at::Tensor stored = tensor::empty(*shape, decoder_.dtype_, tensor::MemoryKind::workspace);
      source_.read(name, stored);
      const at::Tensor value = tensor::on_host(embedding.value);
      same = std::memcmp(stored.data_ptr(), value.data_ptr(), value.nbytes()) == 0;
    }
    if (!same) {
      fail(Status::format,
           "{} differs from the embedding although tie_word_embeddings is true; set it to false",
           source_.place(name));
    }
  }

  void report_others(base::LogSink* log) const {
    base::progress("weights", tensors_, tensors_);
    if (log == nullptr) return;
    const int64_t layers = decoder_.config().num_hidden_layers;
    int64_t beyond = 0, last = 0;
    for (const std::string& name : source_.others(used_)) {
      const bool buffer =
          name.find("rotary_emb.inv_freq") != std::string::npos || name == "rope_freqs.weight";
      const int64_t layer = layer_of(name);
      beyond += layer >= layers ? 1 : 0;
      last = std::max(last, layer);
      if (!buffer && layer < layers) log->warning("model", "tensor {} is not used by this family", name);
    }
    if (beyond == 0) return;
    log->warning(
        "model",
        "weights of {} layers are there, and config.json has num_hidden_layers {}: {} tensors of the "
        "layers behind it are not read",
        last + 1, layers, beyond);
  }

 private:
  void read(const std::string& name, at::Tensor& out) const {
    if (out.is_cpu()) return source_.read(name, out);
    at::Tensor host = tensor::empty(out.sizes(), out.scalar_type(), tensor::MemoryKind::workspace);
    source_.read(name, host);
    out.copy_(host);
  }

  Decoder& decoder_;
  const WeightSource& source_;
  const int64_t tensors_;  // that are stored
  std::set<std::string> used_;
};

Decoder::Decoder(ModelFiles files, const WeightSource& source, at::ScalarType dtype, at::Device device,
                 base::LogSink* log)
    : files_(std::move(files)),
      dtype_(dtype),
      device_(device),
      frequencies_(inverse_frequencies(config().rope, config().head_dim)) {
  const ModelConfig& c = config();
  const int64_t q_width = c.num_attention_heads * c.head_dim;
  const int64_t kv_width = c.num_key_value_heads * c.head_dim;
  Loader loader(*this, source);
  embedding_ = loader.matrix("model.embed_tokens", c.vocab_size, c.hidden_size);
  embedding_->padding_row = c.pad_token_id;
  for (int64_t i = 0; i < c.num_hidden_layers; ++i) {
    const std::string prefix = fmt::format("model.layers.{}.", i);
    LayerShape shape{c.num_attention_heads, c.num_key_value_heads, c.head_dim, c.rms_norm_eps, {}};
    shape.attention.scale = 1.0 / std::sqrt(static_cast<double>(c.head_dim));
    shape.attention.window = c.sliding_layers[static_cast<size_t>(i)] ? c.sliding_window : 0;
    auto layer = std::make_unique<DecoderLayer>(shape);
    layer->q_proj = loader.linear(prefix + "self_attn.q_proj", c.hidden_size, q_width, c.attention_qkv_bias);
    layer->k_proj = loader.linear(prefix + "self_attn.k_proj", c.hidden_size, kv_width, c.attention_qkv_bias);
    layer->v_proj = loader.linear(prefix + "self_attn.v_proj", c.hidden_size, kv_width, c.attention_qkv_bias);
    layer->o_proj = loader.linear(prefix + "self_attn.o_proj", q_width, c.hidden_size, c.attention_out_bias);
    if (c.qk_norm) {
      layer->q_norm = loader.norm(prefix + "self_attn.q_norm", c.head_dim);
      layer->k_norm = loader.norm(prefix + "self_attn.k_norm", c.head_dim);
    }
    layer->gate_proj =
        loader.linear(prefix + "mlp.gate_proj", c.hidden_size, c.intermediate_size, c.mlp_bias);
    layer->up_proj = loader.linear(prefix + "mlp.up_proj", c.hidden_size, c.intermediate_size, c.mlp_bias);
    layer->down_proj =
        loader.linear(prefix + "mlp.down_proj", c.intermediate_size, c.hidden_size, c.mlp_bias);
    layer->input_norm = loader.norm(prefix + "input_layernorm", c.hidden_size);
    layer->mlp_norm = loader.norm(prefix + "post_attention_layernorm", c.hidden_size);
    layers_.push_back(std::move(layer));
  }
  norm_ = loader.norm("model.norm", c.hidden_size);
  head_ = c.tie_word_embeddings ? embedding_ : loader.matrix("lm_head", c.vocab_size, c.hidden_size);
  if (c.tie_word_embeddings) loader.check_tied("lm_head.weight", *embedding_);
  loader.report_others(log);
}

std::vector<std::string> Decoder::align_special_tokens(const engine::SpecialTokens& tokens) {
  std::vector<std::string> changes =
      model::align_special_tokens(files_.config_json, files_.generation_config_json, tokens);
  files_.end_ids = parse_end_ids(files_.generation_config_json, "generation_config.json");
  return changes;
}

void Decoder::resize_embeddings(int64_t rows, uint64_t seed) {
  if (rows == config().vocab_size) return;
  EmbeddingRows resize(rows, seed);
  const auto on = [&](at::Tensor value) { return device_.is_cpu() ? value : value.to(device_); };
  embedding_->value = on(resize.embedding(tensor::on_host(embedding_->value)));
  if (embedding_->padding_row >= rows) embedding_->padding_row = -1;
  if (head_ != embedding_) head_->value = on(resize.head(tensor::on_host(head_->value)));
  files_.config.vocab_size = rows;
  files_.config_json["vocab_size"] = rows;
}

std::vector<Parameter*> Decoder::parameters() {
  std::vector<Parameter*> all;
  for (const auto& parameter : parameters_) all.push_back(parameter.get());
  return all;
}

// Ids come from a tokenizer that may know more tokens than the embedding has rows.
void Decoder::check(const ForwardInput& input) const {
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
}

LayerContext Decoder::context(const ForwardInput& input, at::ScalarType wanted) const {
  LayerContext context;
  context.compute = compute(wanted);
  context.segments = input.segments;
  const RopeTables host = rope_tables(frequencies_, input.position_ids);
  context.rope = {host.cos.to(device_), host.sin.to(device_)};
  return context;
}

// The anchor makes the result part of a graph although ids and weights are not autograd's.
at::Tensor Decoder::embed(const at::Tensor& ids, const kernels::Noise& noise) {
  at::Tensor anchor = at::zeros({}, at::kFloat);
  anchor.set_requires_grad(at::GradMode::is_enabled());
  return kernels::embedding(anchor, ids, *embedding_, noise);
}

at::Tensor Decoder::forward(const ForwardInput& input, const ForwardOptions& options) {
  check(input);
  LayerContext shared = context(input, options.compute);
  shared.attention = options.attention;
  at::Tensor x = embed(input.input_ids, options.noise);
  for (const auto& layer : layers_) {
    DecoderLayer* unit = layer.get();
    x = memory::checkpoint(x, options.checkpoint, [unit, shared](const at::Tensor& stream) {
      return unit->forward(stream, shared);
    });
  }
  return kernels::rms_norm(x, *norm_, config().rms_norm_eps);
}

std::vector<at::Tensor> Decoder::hidden_states(const ForwardInput& input, const ForwardOptions& options) {
  check(input);
  LayerContext shared = context(input, options.compute);
  shared.attention = options.attention;
  std::vector<at::Tensor> states{embed(input.input_ids)};
  for (const auto& layer : layers_) states.push_back(layer->forward(states.back(), shared));
  states.back() = kernels::rms_norm(states.back(), *norm_, config().rms_norm_eps);
  return states;
}

std::shared_ptr<KvCache> Decoder::new_cache(int64_t capacity) {
  auto cache = std::make_shared<KvCache>();
  cache->first_rows = std::max<int64_t>(1, capacity);
  cache->layers.resize(layers_.size());
  return cache;
}

at::Tensor Decoder::extend(KvCache& cache, const std::vector<int32_t>& ids, at::ScalarType wanted) {
  if (ids.empty()) fail(Status::invalid_argument, "no token to extend the sequence with");
  const at::NoGradGuard no_grad;
  const auto count = static_cast<int64_t>(ids.size());
  cache.reserve(count, config().num_key_value_heads, config().head_dim, compute(wanted), device_);
  if (cache.length == 0) return step(cache, ids.data(), count, wanted);
  at::Tensor last;
  for (const int32_t id : ids) last = step(cache, &id, 1, wanted);
  return last;
}

at::Tensor Decoder::step(KvCache& cache, const int32_t* ids, int64_t count, at::ScalarType wanted) {
  ForwardInput input;
  input.input_ids = at::empty({count}, at::kInt);
  input.position_ids = at::empty({count}, at::kInt);
  std::copy(ids, ids + count, input.input_ids.data_ptr<int32_t>());
  for (int64_t i = 0; i < count; ++i)
    input.position_ids.data_ptr<int32_t>()[i] = static_cast<int32_t>(cache.length + i);
  input.segments =
      std::make_shared<kernels::Segments>(kernels::Segments{{0, static_cast<int32_t>(count)}, count});
  check(input);
  LayerContext shared = context(input, wanted);
  shared.past = cache.length;
  at::Tensor x = embed(input.input_ids);
  for (size_t i = 0; i < layers_.size(); ++i) {
    shared.cache = &cache.layers[i];
    x = layers_[i]->forward(x, shared);
  }
  cache.length += count;
  return kernels::rms_norm(x.narrow(0, count - 1, 1).contiguous(), *norm_, config().rms_norm_eps);
}

}  // namespace trl::model
