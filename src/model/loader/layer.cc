// Loads a layer: its attention, its feed-forward part without experts, its norms.
#include "model/config/model_config.h"
#include "model/loader/loader.h"

namespace trl::model {

namespace {

// "model.layers.{}." -> "model.layers.3."
std::string numbered(std::string_view pattern, int64_t number) {
  return fmt::format(fmt::runtime(pattern), number);
}

}  // namespace

std::unique_ptr<DecoderLayer> Loader::layer(int64_t index) {
  const std::string prefix = numbered(names_.layer, index);
  const auto norm_of = [&](std::string_view name) {
    return name.empty() ? Norm{} : norm(prefix + std::string(name), {config_.hidden_size});
  };
  auto layer = std::make_unique<DecoderLayer>();
  layer->attention = attention(prefix, index);
  if (config_.expert_layers[static_cast<size_t>(index)])
    layer->experts = experts(prefix);
  else
    layer->mlp = mlp(prefix);
  layer->parallel = config_.parallel;
  layer->branch_scale = config_.residual_scale;
  layer->attention_norm = norm_of(names_.attention_norm);
  layer->attention_post_norm = norm_of(names_.attention_post_norm);
  if (!config_.parallel || !config_.family->one_norm_if_parallel) layer->mlp_norm = norm_of(names_.mlp_norm);
  layer->mlp_post_norm = norm_of(names_.mlp_post_norm);
  return layer;
}

BlockAttention Loader::attention(const std::string& prefix, int64_t index) {
  const ModelConfig& c = config_;
  const bool slides = c.sliding_layers[static_cast<size_t>(index)];
  BlockAttention block{.heads = c.num_attention_heads,
                       .kv_heads = c.num_key_value_heads,
                       .head_dim = c.head_dim,
                       .by_head = c.family->qkv_by_head,
                       .whole_norms = c.family->qk_norm_whole,
                       .rope = slides && c.sliding_rope ? 1 : 0,
                       .rope_layout = c.rope.layout};
  if (!c.turned_layers[static_cast<size_t>(index)]) block.rope = -1;
  block.options.scale = c.attention_scale;
  block.options.window = slides ? c.sliding_window : 0;
  block.options.softcap = c.attention_softcap;
  block.weight_dropout = c.dropout.attention;
  block.out_dropout = c.dropout.attention_out;
  const int64_t q_width = block.heads * c.head_dim, kv_width = block.kv_heads * c.head_dim;
  const auto from_stream = [&](std::string_view name, int64_t width) {
    block.in.push_back(projection(prefix + std::string(name), c.hidden_size, width, c.attention_qkv_bias));
  };
  if (names_.qkv.empty()) {
    from_stream(names_.q, q_width);
    from_stream(names_.k, kv_width);
    from_stream(names_.v, kv_width);
  } else {
    from_stream(names_.qkv, q_width + 2 * kv_width);
  }
  block.out =
      projection(prefix + std::string(names_.attention_out), q_width, c.hidden_size, c.attention_out_bias);
  if (c.qk_norm) {
    block.q_norm = norm_of_heads(prefix, names_.q_norm, block.heads);
    block.k_norm = norm_of_heads(prefix, names_.k_norm, block.kv_heads);
  }
  return block;
}

BlockMlp Loader::mlp(const std::string& prefix) {
  const ModelConfig& c = config_;
  BlockMlp block{.gated = !names_.gate.empty() || !names_.gate_up.empty(), .activation = c.activation};
  const auto from_stream = [&](std::string_view name, int64_t width) {
    block.in.push_back(projection(prefix + std::string(name), c.hidden_size, width, c.mlp_bias));
  };
  if (!names_.gate_up.empty()) {
    from_stream(names_.gate_up, 2 * c.intermediate_size);
  } else {
    if (block.gated) from_stream(names_.gate, c.intermediate_size);
    from_stream(names_.up, c.intermediate_size);
  }
  block.out = projection(prefix + std::string(names_.down), c.intermediate_size, c.hidden_size, c.mlp_bias);
  block.out_dropout = c.dropout.mlp_out;
  return block;
}

Norm Loader::norm(const std::string& name, const std::vector<int64_t>& shape) {
  Norm norm{.kind = config_.family->norm, .eps = config_.norm_eps};
  norm.weight = load(name + ".weight", shape, false);
  if (config_.family->norm_bias) norm.bias = load(name + ".bias", shape, false);
  return norm;
}

// The norm of queries or keys. Separate norms for each head have no bias.
Norm Loader::norm_of_heads(const std::string& prefix, std::string_view name, int64_t heads) {
  const int64_t width = config_.head_dim;
  if (name.find("{}") == std::string_view::npos)
    return norm(prefix + std::string(name), head_norm_shape(config_, heads));
  Norm norm{.kind = config_.family->norm, .eps = config_.norm_eps};
  for (int64_t head = 0; head < heads; ++head) {
    tensor::Parameter* const weight = load(prefix + numbered(name, head) + ".weight", {width}, false);
    if (head == 0)
      norm.weight = weight;
    else
      norm.more.push_back(weight);
  }
  return norm;
}

kernels::Projection Loader::projection(const std::string& name, int64_t in, int64_t out, bool bias) {
  kernels::Projection projection{.weight = encoded_linear(name, out, in)};
  if (projection.weight == nullptr) {
    projection.transposed = config_.family->transposed;
    projection.weight = projection.transposed ? matrix(name, in, out) : matrix(name, out, in);
  }
  if (bias) projection.bias = load(name + ".bias", {out}, false);
  return projection;
}

tensor::Parameter* Loader::matrix(const std::string& name, int64_t rows, int64_t columns) {
  return load(name + ".weight", {rows, columns}, true);
}

}  // namespace trl::model
