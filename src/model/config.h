// What config.json says of a decoder, as the families here read it.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"

namespace trl::model {

struct RopeConfig {
  std::string type = "default";  // default, linear, llama3 ...
  double theta = 10000.0;
  double factor = 1.0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  int64_t original_max_position_embeddings = 0;
};

struct ModelConfig {
  std::string model_type;    // "llama", "mistral", "qwen2", "qwen3"
  std::string architecture;  // "LlamaForCausalLM"
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_hidden_layers = 0;
  int64_t num_attention_heads = 0;
  int64_t num_key_value_heads = 0;
  int64_t head_dim = 0;
  int64_t max_position_embeddings = 0;
  double rms_norm_eps = 1e-6;
  bool tie_word_embeddings = false;
  bool attention_qkv_bias = false;
  bool attention_out_bias = false;
  bool mlp_bias = false;
  bool qk_norm = false;
  int64_t sliding_window = 0;        // 0: none
  std::vector<bool> sliding_layers;  // [layers]
  int64_t pad_token_id = -1;         // whose row of the embedding its lookups do not train; -1: none
  double attention_dropout = 0;      // of training; the layers here apply none
  RopeConfig rope;
};

// Reads both styles of transformers (rope_theta and rope_scaling; rope_parameters). Throws Error: a missing
// or wrong key by name; an unknown family or rope type with the list of those known (unsupported).
ModelConfig parse_config(const base::Json& config, std::string_view origin);

// eos_token_id of generation_config.json or config.json: an id, a list of them, or none. Throws
// Error(format): it is neither.
std::vector<int32_t> parse_end_ids(const base::Json& config, std::string_view origin);

}  // namespace trl::model
