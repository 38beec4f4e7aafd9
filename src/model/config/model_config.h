// The content of a decoder's config.json, as the families here read it.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json/json.h"
#include "kernels/kinds.h"
#include "model/config/families.h"
#include "model/config/rope.h"

namespace trl::model {

// Sizes of the layers that have experts.
struct ExpertsConfig {
  int64_t count = 0;   // 0: no layer has any
  int64_t chosen = 0;  // per token
  int64_t width = 0;
  int64_t shared_width = 0;  // width of the expert that every token uses; 0: none
  bool normalised = false;   // the shares of a token's experts add up to 1
  double balance = 0;        // coefficient of the routers' loss
  double jitter = 0;         // noise in the router's input in training, which the layers here do not apply
};

// Rates of dropout in training: of the input of the layers, of the weights of attention, and of the additions
// of attention and feed-forward part to the stream.
struct DropoutRates {
  double embedding = 0, attention = 0, attention_out = 0, mlp_out = 0;
};

// The kind of head of a model. scores: a classifier. reward: one score; files of a language model get a new
// head.
enum class Head : uint8_t { language, scores, reward };

struct ModelConfig {
  const Family* family = nullptr;
  std::string model_type;           // "llama", "mistral", "qwen2" ...
  std::string architecture;         // "LlamaForCausalLM"
  int64_t labels = 0;               // number of a classifier's scores; 0: a language model
  bool new_head = false;            // a classifier's files have no head, so it is drawn
  double initializer_range = 0.02;  // the standard deviation of that draw
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_hidden_layers = 0;
  int64_t num_attention_heads = 0;
  int64_t num_key_value_heads = 0;
  int64_t head_dim = 0;  // the same in every layer
  int64_t max_position_embeddings = 0;
  int64_t model_max_length = 0;  // Command R's name for more positions than that; 0: not given
  double norm_eps = 1e-6;
  kernels::Activation activation = kernels::Activation::silu;
  bool tie_word_embeddings = false;
  bool attention_qkv_bias = false;
  bool attention_out_bias = false;
  bool mlp_bias = false;
  bool qk_norm = false;
  bool parallel = false;             // attention and mlp read the same stream
  int64_t sliding_window = 0;        // 0: none
  std::vector<bool> sliding_layers;  // [layers]
  std::vector<bool> turned_layers;   // [layers]: whether it has rotary embedding
  int64_t pad_token_id = -1;         // lookups do not train its row of the embedding; -1: none

  double embedding_scale = 1;       // factor of the embedding's rows, rounded to their type
  double embedding_multiplier = 1;  // factor of the embedding after that
  double residual_scale = 1;        // factor of a branch's addition to the stream
  double attention_scale = 1;       // factor of q k^T
  double attention_softcap = 0;     // 0: none
  double logits_scale = 1;
  double logits_softcap = 0;  // 0: none

  ExpertsConfig experts;
  std::vector<bool> expert_layers;  // [layers]

  RopeConfig rope;
  std::optional<RopeConfig> sliding_rope;  // for layers with a window, if theirs differs

  DropoutRates dropout;

  // The most tokens in a sequence; 0: positions are not learned, and the length is unlimited.
  int64_t learned_positions() const;
  // The most tokens in a sequence that the model is made for, learned or not.
  int64_t positions() const;
};

// Reads both styles of transformers (rope_theta and rope_scaling; rope_parameters). Throws Error: a missing
// or wrong key by name; an unknown family or rope type with the list of known ones, or another head
// (unsupported). With Head::reward new_head tells that the files may have no head.
ModelConfig parse_config(const base::Json& config, std::string_view origin, Head head = Head::language);

// eos_token_id of generation_config.json or config.json: an id, a list of them, or none. Throws Error(format)
// for anything else.
std::vector<int32_t> parse_end_ids(const base::Json& config, std::string_view origin);

struct TensorShape {
  std::string name;  // Hugging Face's
  std::vector<int64_t> shape;
};
// Lists the tensors of a model without opening one. Sorted by layer; a tied head is not included.
std::vector<TensorShape> tensor_list(const ModelConfig& config);
// The shape of the norm of queries or keys with this many heads, if it is one tensor.
std::vector<int64_t> head_norm_shape(const ModelConfig& config, int64_t heads);

}  // namespace trl::model
