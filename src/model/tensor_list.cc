#include "model/tensor_list.h"

#include <fmt/format.h>

namespace trl::model {

namespace {

class List {
 public:
  explicit List(const ModelConfig& config) : c_(config), names_(config.family->names) {}

  std::vector<TensorShape> made() {
    weight(std::string(names_.embedding), {c_.vocab_size, c_.hidden_size});
    for (int64_t i = 0; i < c_.num_hidden_layers; ++i) {
      prefix_ = fmt::format(fmt::runtime(names_.layer), i);
      attention();
      mlp();
    }
    weight(std::string(names_.final_norm), {c_.hidden_size});
    if (!c_.tie_word_embeddings) weight(std::string(names_.head), {c_.vocab_size, c_.hidden_size});
    return std::move(tensors_);
  }

 private:
  void weight(const std::string& name, std::vector<int64_t> shape) {
    tensors_.push_back({name + ".weight", std::move(shape)});
  }
  void norm(std::string_view name, int64_t width) {
    if (!name.empty()) weight(prefix_ + std::string(name), {width});
  }
  void linear(std::string_view name, int64_t in, int64_t out, bool bias) {
    if (name.empty()) return;
    weight(prefix_ + std::string(name), {out, in});
    if (bias) tensors_.push_back({prefix_ + std::string(name) + ".bias", {out}});
  }

  void attention() {
    const int64_t q_width = c_.num_attention_heads * c_.head_dim;
    const int64_t kv_width = c_.num_key_value_heads * c_.head_dim;
    norm(names_.attention_norm, c_.hidden_size);
    norm(names_.attention_post_norm, c_.hidden_size);
    linear(names_.q, c_.hidden_size, q_width, c_.attention_qkv_bias);
    linear(names_.k, c_.hidden_size, kv_width, c_.attention_qkv_bias);
    linear(names_.v, c_.hidden_size, kv_width, c_.attention_qkv_bias);
    linear(names_.attention_out, q_width, c_.hidden_size, c_.attention_out_bias);
    if (!c_.qk_norm) return;
    norm(names_.q_norm, c_.head_dim);
    norm(names_.k_norm, c_.head_dim);
  }

  void mlp() {
    norm(names_.mlp_norm, c_.hidden_size);
    norm(names_.mlp_post_norm, c_.hidden_size);
    linear(names_.gate, c_.hidden_size, c_.intermediate_size, c_.mlp_bias);
    linear(names_.up, c_.hidden_size, c_.intermediate_size, c_.mlp_bias);
    linear(names_.down, c_.intermediate_size, c_.hidden_size, c_.mlp_bias);
  }

  const ModelConfig& c_;
  const Names& names_;
  std::string prefix_;  // of the layer
  std::vector<TensorShape> tensors_;
};

}  // namespace

std::vector<TensorShape> tensor_list(const ModelConfig& config) { return List(config).made(); }

}  // namespace trl::model
