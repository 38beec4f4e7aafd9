// The table of decoder families: a row describes the parts of a block, their keys in config.json, and the
// names of the weights in files. A block has the parts that its row has a name for. Everything that a row
// does not mention is as in Llama.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "kernels/kinds.h"

namespace trl::model {

// Names of weights without ".weight" and ".bias". Names within a layer follow `layer`, whose {} is its
// number.
struct Names {
  std::string_view embedding = "model.embed_tokens";
  std::string_view positions = {};  // learned positions, added to the embedding
  std::string_view final_norm = "model.norm";
  std::string_view head = "lm_head";
  std::string_view score = "score";  // the head of a classifier

  std::string_view layer = "model.layers.{}.";
  std::string_view attention_norm = "input_layernorm";  // normalises the input of attention
  std::string_view attention_post_norm = {};            // normalises the output of attention
  std::string_view mlp_norm = "post_attention_layernorm";
  std::string_view mlp_post_norm = {};
  std::string_view q = "self_attn.q_proj", k = "self_attn.k_proj", v = "self_attn.v_proj";
  std::string_view qkv = {};  // instead of the three above
  std::string_view attention_out = "self_attn.o_proj";
  std::string_view q_norm = {}, k_norm = {};  // with {}: one for each head, with its number
  std::string_view gate = "mlp.gate_proj", up = "mlp.up_proj";
  std::string_view gate_up = {};  // instead of the two above; no gate if `gate` and this are empty
  std::string_view down = "mlp.down_proj";
  // For layers with experts: the router, and gate_up_proj and down_proj of all experts in one, as
  // transformers holds them in memory. In files each expert has its own matrices, named by its number.
  std::string_view router = {}, experts = "mlp.experts.";
  std::string_view expert = "mlp.experts.{}.";
  std::string_view expert_gate = "gate_proj", expert_up = "up_proj", expert_down = "down_proj";
  std::string_view shared_router = {};  // for the expert that every token uses
  std::string_view shared_gate = "mlp.shared_expert.gate_proj", shared_up = "mlp.shared_expert.up_proj",
                   shared_down = "mlp.shared_expert.down_proj";
};

// Alternative names of the same weights in files, as transformers' key mappings accept them: a name with
// `ours` is stored with `theirs` instead. A missing or doubled prefix of the base class ("model.") is
// accepted for every family (stored_name).
struct OtherName {
  std::string_view ours, theirs;
  bool inside = false;  // anywhere in a name except at its beginning
};

// The key in config.json, and the value if it is missing. Without a key, always `otherwise`.
struct FlagKey {
  const char* key = nullptr;
  bool otherwise = false;
};
struct NumberKey {
  const char* key = nullptr;
  double otherwise = 0;
};
struct SizeKey {
  const char* key;
  int64_t otherwise = 0;  // 0: required, or follows from another size
};

struct Sizes {
  SizeKey vocab = {"vocab_size"};
  SizeKey hidden = {"hidden_size"};
  SizeKey intermediate = {"intermediate_size"};
  // A multiple of the hidden size if it is missing; 0: required.
  int64_t intermediate_of_hidden = 0;
  SizeKey layers = {"num_hidden_layers"};
  SizeKey heads = {"num_attention_heads"};
  SizeKey kv_heads = {"num_key_value_heads"};  // if missing, as many as heads
  SizeKey positions = {"max_position_embeddings", 2048};
  int64_t head_dim = 0;  // if "head_dim" is missing; 0: hidden / heads
};

// The rule by which layers have a sliding window.
enum class WindowRule : uint8_t {
  none,
  every_layer,
  late_layers,      // from "max_window_layers" on
  pattern,          // all but every n-th
  unturned_layers,  // layers without rotary embedding
  early_layers,     // every other one of those before "max_window_layers"
};
struct Window {
  WindowRule rule = WindowRule::none;  // "layer_types" takes precedence, except for every_layer
  FlagKey on = {nullptr, true};
  int64_t size = 0;     // if "sliding_window" is missing; 0: no window
  int64_t pattern = 0;  // n
  const char* pattern_key = nullptr;
};

struct Rope {
  bool used = true;
  NumberKey theta = {"rope_theta", 10000.0};
  // Share of a head that is turned; without a key all of it, and the family allows no other share.
  NumberKey partial = {};
  NumberKey sliding_theta = {};        // for layers with a window, if theirs differs
  SizeKey unturned_every = {nullptr};  // every n-th layer turns nothing; "no_rope_layers" takes precedence
  int64_t original_positions = 0;      // if "original_max_position_embeddings" is missing
  bool old_longrope_names = false;     // "su" and "yarn" mean longrope
  kernels::RopeLayout layout = kernels::RopeLayout::halves;
};

struct Scales {
  bool embedding_by_width = false;  // the embedding is multiplied by the square root of the hidden size
  NumberKey embedding = {nullptr, 1};
  NumberKey residual = {nullptr, 1};  // factor of a branch's addition to the stream
  NumberKey attention = {};           // factor of q k^T; 0: 1 / sqrt(head_dim)
  NumberKey attention_root = {};      // the same, given as x for 1 / sqrt(x)
  NumberKey logits = {nullptr, 1};
  NumberKey logits_divisor = {nullptr, 1};
  NumberKey attention_softcap = {}, logits_softcap = {};  // 0 or null: none
};

// Rates of dropout in training.
struct Dropouts {
  NumberKey embedding = {};                        // rate for the input of the layers
  NumberKey attention = {"attention_dropout", 0};  // rate for the attention weights
  NumberKey attention_out = {}, mlp_out = {};      // rates for the parts' additions to the stream
};

// For a family whose names have a router.
struct Experts {
  SizeKey count = {"num_experts"};  // or "num_local_experts"
  SizeKey chosen = {"num_experts_per_tok"};
  SizeKey width = {"moe_intermediate_size"};
  SizeKey shared_width = {"shared_expert_intermediate_size"};
  FlagKey normalised = {"norm_topk_prob", false};
  // Layers before every n-th are dense, and so are the layers in "mlp_only_layers".
  SizeKey every = {"decoder_sparse_step", 1};
  NumberKey balance = {"router_aux_loss_coef", 0.001};
  NumberKey jitter = {};  // noise in the router's input in training
};

struct Family {
  std::string_view model_type;       // config.json's; also GGUF's general.architecture
  std::string_view architecture;     // the language model's class in transformers
  std::string_view classifier = {};  // ...ForSequenceClassification; empty: transformers has none
  const char* text = nullptr;        // the key of config.json that holds the language model's configuration
  Names names = {};
  std::span<const OtherName> other_names = {};
  std::span<const std::string_view> carried = {};  // weights with these prefixes are saved unchanged
  Sizes sizes = {};
  bool tied = false;  // if "tie_word_embeddings" is missing
  kernels::NormKind norm = kernels::NormKind::rms;
  bool norm_bias = false;
  NumberKey eps = {"rms_norm_eps", 1e-6};
  bool qk_norm_whole = false;         // norms are over all heads of a position at once
  bool qk_norm_by_head = false;       // separate weights for each head, in one tensor [heads, head_dim]
  FlagKey qk_norm = {nullptr, true};  // for a family whose names have q_norm and k_norm
  const char* activation_key = "hidden_act";
  std::string_view activation = "silu";
  bool gelu_is_tanh = false;  // "gelu" means the approximation by tanh
  FlagKey qkv_bias = {}, out_bias = {}, mlp_bias = {};
  FlagKey parallel = {};              // attention and mlp read the same stream
  bool one_norm_if_parallel = false;  // the two parts then share one norm
  Window window = {};
  Rope rope = {};
  Scales scales = {};
  Experts experts = {};
  Dropouts dropouts = {};
  // Training divides the loss by the number of all labels, although the first of a row is not a target:
  // transformers' Trainer does so for classes that are not called ...ForCausalLM.
  bool counts_first_labels = false;
  bool padding_row = true;               // lookups do not train the embedding's row of pad_token_id
  bool transposed = false;               // weights of layers are [in, out]
  bool attention_out_first = false;      // transformers' class has it before qkv
  bool router_last = false;              // the router comes after the experts
  bool qkv_by_head = false;              // rows of qkv: q, k and v of the first head, then of the second ...
  std::span<const FlagKey> needed = {};  // values that config.json must have if it has the keys
};

std::span<const Family> families();
const Family* find_family(std::string_view model_type);  // null: unknown
std::string known_families();                            // "llama, mistral, qwen2, qwen3"

// Names a module as transformers does: "model.layers.0.mlp.up_proj.weight" -> "model.layers.0.mlp.up_proj".
// In a multimodal class, the language model is a submodule.
inline std::string module_name(const std::string& parameter, const Family& family) {
  const std::string name =
      parameter.ends_with(".weight") ? parameter.substr(0, parameter.rfind('.')) : parameter;
  if (family.text == nullptr || !name.starts_with("model.")) return name;
  return "model.language_model." + name.substr(6);
}

}  // namespace trl::model
