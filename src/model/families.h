// The families of decoders that are known, one row each: what distinguishes them beyond config.json.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace trl::model {

enum class BiasRule : uint8_t {
  none,
  always,
  by_key
};  // by_key: "attention_bias" or "mlp_bias" of config.json

enum class SlidingRule : uint8_t {
  none,
  by_layer,    // asked for by use_sliding_window; layer_types or max_window_layers say where
  every_layer  // unless sliding_window is null
};

struct Family {
  std::string_view model_type;    // config.json's; also GGUF's general.architecture
  std::string_view architecture;  // class in transformers
  int64_t default_head_dim;       // when config.json has none; 0: hidden_size / num_attention_heads
  BiasRule qkv_bias;
  BiasRule out_bias;
  BiasRule mlp_bias;
  bool qk_norm;  // RMS norm of every query and key head
  SlidingRule sliding;
  bool gguf_interleaved_rope;  // GGUF keeps rows of Q and K in pairs (2i, 2i + 1) instead of halves (i, i + d
                               // / 2)
};

std::span<const Family> families();
const Family* find_family(std::string_view model_type);  // null: not known
std::string known_families();                            // "llama, mistral, qwen2, qwen3"

}  // namespace trl::model
