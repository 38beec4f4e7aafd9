#include "model/config/model_config.h"

#include <fmt/format.h>

#include <tuple>

namespace trl::model {

namespace {

class List {
 public:
  explicit List(const ModelConfig& config) : c_(config), names_(config.family->names) {}

  std::vector<TensorShape> made() {
    weight(std::string(names_.embedding), {c_.vocab_size, c_.hidden_size});
    if (!names_.positions.empty())
      weight(std::string(names_.positions), {c_.max_position_embeddings, c_.hidden_size});
    for (int64_t i = 0; i < c_.num_hidden_layers; ++i) {
      prefix_ = numbered(names_.layer, i);
      attention();
      mlp(c_.expert_layers[static_cast<size_t>(i)]);
    }
    prefix_.clear();
    norm(names_.final_norm, c_.hidden_size);
    if (c_.labels > 0)
      weight(std::string(names_.score), {c_.labels, c_.hidden_size});
    else if (!c_.tie_word_embeddings)
      weight(std::string(names_.head), {c_.vocab_size, c_.hidden_size});
    return std::move(tensors_);
  }

 private:
  static std::string numbered(std::string_view pattern, int64_t number) {
    return fmt::format(fmt::runtime(pattern), number);
  }
  void weight(const std::string& name, std::vector<int64_t> shape) {
    tensors_.push_back({name + ".weight", std::move(shape)});
  }
  void bias(std::string_view name, int64_t width) {
    tensors_.push_back({prefix_ + std::string(name) + ".bias", {width}});
  }
  void norm(std::string_view name, int64_t width) {
    if (name.empty()) return;
    weight(prefix_ + std::string(name), {width});
    if (c_.family->norm_bias) bias(name, width);
  }
  void linear(std::string_view name, int64_t in, int64_t out, bool has_bias = false) {
    if (name.empty()) return;
    weight(prefix_ + std::string(name), c_.family->transposed ? std::vector{in, out} : std::vector{out, in});
    if (has_bias) bias(name, out);
  }

  void attention() {
    const int64_t q_width = c_.num_attention_heads * c_.head_dim;
    const int64_t kv_width = c_.num_key_value_heads * c_.head_dim;
    norm(names_.attention_norm, c_.hidden_size);
    norm(names_.attention_post_norm, c_.hidden_size);
    if (names_.qkv.empty()) {
      linear(names_.q, c_.hidden_size, q_width, c_.attention_qkv_bias);
      linear(names_.k, c_.hidden_size, kv_width, c_.attention_qkv_bias);
      linear(names_.v, c_.hidden_size, kv_width, c_.attention_qkv_bias);
    } else {
      linear(names_.qkv, c_.hidden_size, q_width + 2 * kv_width, c_.attention_qkv_bias);
    }
    linear(names_.attention_out, q_width, c_.hidden_size, c_.attention_out_bias);
    if (!c_.qk_norm) return;
    norm_of_heads(names_.q_norm, c_.num_attention_heads);
    norm_of_heads(names_.k_norm, c_.num_key_value_heads);
  }
  void norm_of_heads(std::string_view name, int64_t heads) {
    if (name.find("{}") == std::string_view::npos)
      return weight(prefix_ + std::string(name), head_norm_shape(c_, heads));
    for (int64_t head = 0; head < heads; ++head) weight(prefix_ + numbered(name, head), {c_.head_dim});
  }

  void mlp(bool has_experts) {
    if (!c_.parallel || !c_.family->one_norm_if_parallel) norm(names_.mlp_norm, c_.hidden_size);
    norm(names_.mlp_post_norm, c_.hidden_size);
    if (has_experts) return experts();
    if (names_.gate_up.empty()) {
      linear(names_.gate, c_.hidden_size, c_.intermediate_size, c_.mlp_bias);
      linear(names_.up, c_.hidden_size, c_.intermediate_size, c_.mlp_bias);
    } else {
      linear(names_.gate_up, c_.hidden_size, 2 * c_.intermediate_size, c_.mlp_bias);
    }
    linear(names_.down, c_.intermediate_size, c_.hidden_size, c_.mlp_bias);
  }

  void experts() {
    const ExpertsConfig& e = c_.experts;
    const std::string layer = prefix_;
    linear(names_.router, c_.hidden_size, e.count);
    for (const auto& [name, in, out] : {std::tuple{names_.expert_gate, c_.hidden_size, e.width},
                                        std::tuple{names_.expert_up, c_.hidden_size, e.width},
                                        std::tuple{names_.expert_down, e.width, c_.hidden_size}}) {
      for (int64_t i = 0; i < e.count; ++i) {
        prefix_ = layer + numbered(names_.expert, i);
        linear(name, in, out);
      }
    }
    prefix_ = layer;
    if (e.shared_width == 0) return;
    linear(names_.shared_router, c_.hidden_size, 1);
    linear(names_.shared_gate, c_.hidden_size, e.shared_width);
    linear(names_.shared_up, c_.hidden_size, e.shared_width);
    linear(names_.shared_down, e.shared_width, c_.hidden_size);
  }

  const ModelConfig& c_;
  const Names& names_;
  std::string prefix_;  // the layer's
  std::vector<TensorShape> tensors_;
};

}  // namespace

std::vector<TensorShape> tensor_list(const ModelConfig& config) { return List(config).made(); }

std::vector<int64_t> head_norm_shape(const ModelConfig& config, int64_t heads) {
  if (config.family->qk_norm_by_head) return {heads, config.head_dim};
  return {config.family->qk_norm_whole ? heads * config.head_dim : config.head_dim};
}

}  // namespace trl::model
