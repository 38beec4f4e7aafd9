#include "model/families.h"

namespace trl::model {

namespace {

constexpr FlagKey kAlways = {nullptr, true};
constexpr FlagKey kAttentionBias = {"attention_bias", false};
constexpr FlagKey kMlpBias = {"mlp_bias", false};

constexpr Family kFamilies[] = {
    {.model_type = "llama",
     .architecture = "LlamaForCausalLM",
     .classifier = "LlamaForSequenceClassification",
     .qkv_bias = kAttentionBias,
     .out_bias = kAttentionBias,
     .mlp_bias = kMlpBias,
     .gguf_interleaved_rope = true},
    {.model_type = "mistral",
     .architecture = "MistralForCausalLM",
     .classifier = "MistralForSequenceClassification",
     .window = {.rule = WindowRule::every_layer, .size = 4096},
     .gguf_interleaved_rope = true},
    {.model_type = "qwen2",
     .architecture = "Qwen2ForCausalLM",
     .classifier = "Qwen2ForSequenceClassification",
     .qkv_bias = kAlways,
     .window = {.rule = WindowRule::late_layers, .on = {"use_sliding_window", false}, .size = 4096}},
    {.model_type = "qwen3",
     .architecture = "Qwen3ForCausalLM",
     .classifier = "Qwen3ForSequenceClassification",
     .names = {.q_norm = "self_attn.q_norm", .k_norm = "self_attn.k_norm"},
     .sizes = {.head_dim = 128},
     .qkv_bias = kAttentionBias,
     .out_bias = kAttentionBias,
     .window = {.rule = WindowRule::late_layers, .on = {"use_sliding_window", false}, .size = 4096}},
};

}  // namespace

std::span<const Family> families() { return kFamilies; }

const Family* find_family(std::string_view model_type) {
  for (const Family& family : kFamilies) {
    if (family.model_type == model_type) return &family;
  }
  return nullptr;
}

std::string known_families() {
  std::string names;
  for (const Family& family : kFamilies)
    names += (names.empty() ? "" : ", ") + std::string(family.model_type);
  return names;
}

}  // namespace trl::model
