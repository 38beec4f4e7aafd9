#include "model/config/families.h"

namespace trl::model {

namespace {

using kernels::NormKind;
using kernels::RopeLayout;

constexpr FlagKey kAlways = {nullptr, true};
constexpr FlagKey kAttentionBias = {"attention_bias", false};
constexpr FlagKey kMlpBias = {"mlp_bias", false};

constexpr Names kSandwich = {.attention_post_norm = "post_attention_layernorm",
                             .mlp_norm = "pre_feedforward_layernorm",
                             .mlp_post_norm = "post_feedforward_layernorm"};
constexpr Names kSandwichWithHeadNorms = {.attention_post_norm = "post_attention_layernorm",
                                          .mlp_norm = "pre_feedforward_layernorm",
                                          .mlp_post_norm = "post_feedforward_layernorm",
                                          .q_norm = "self_attn.q_norm",
                                          .k_norm = "self_attn.k_norm"};
constexpr Names kGlm4Names = {.attention_post_norm = "post_self_attn_layernorm",
                              .mlp_post_norm = "post_mlp_layernorm",
                              .gate_up = "mlp.gate_up_proj"};
constexpr Sizes kGlmSizes = {.kv_heads = {"num_key_value_heads", 2},
                             .positions = {"max_position_embeddings", 131072},
                             .head_dim = 128};
constexpr Rope kGlmRope = {.partial = {"partial_rotary_factor", 0.5}, .layout = RopeLayout::pairs};

constexpr Sizes kGemma3Sizes = {.vocab = {"vocab_size", 262208},
                                .heads = {"num_attention_heads", 8},
                                .kv_heads = {"num_key_value_heads", 4},
                                .positions = {"max_position_embeddings", 131072},
                                .head_dim = 256};

constexpr Names kNeoxNames = {.embedding = "gpt_neox.embed_in",
                              .final_norm = "gpt_neox.final_layer_norm",
                              .layer = "gpt_neox.layers.{}.",
                              .qkv = "attention.query_key_value",
                              .attention_out = "attention.dense",
                              .gate = {},
                              .up = "mlp.dense_h_to_4h",
                              .down = "mlp.dense_4h_to_h"};
constexpr OtherName kNeoxOtherNames[] = {{"lm_head.", "embed_out."}};

constexpr Names kGpt2Names = {.embedding = "transformer.wte",
                              .positions = "transformer.wpe",
                              .final_norm = "transformer.ln_f",
                              .layer = "transformer.h.{}.",
                              .attention_norm = "ln_1",
                              .mlp_norm = "ln_2",
                              .qkv = "attn.c_attn",
                              .attention_out = "attn.c_proj",
                              .gate = {},
                              .up = "mlp.c_fc",
                              .down = "mlp.c_proj"};

// `theirs` is the name in transformers' class.
constexpr OtherName kMixtralOtherNames[] = {{".block_sparse_moe.", ".mlp.", true}};

// Values that config.json must have, because there is no kernel for others.
constexpr FlagKey kCausal[] = {{"use_bidirectional_attention", false}};
constexpr FlagKey kGpt2Needs[] = {
    {"scale_attn_weights", true}, {"scale_attn_by_inverse_layer_idx", false}, {"add_cross_attention", false}};

constexpr Family kGemma3Text = {
    .model_type = "gemma3_text",
    .architecture = "Gemma3ForCausalLM",
    .classifier = "Gemma3TextForSequenceClassification",
    .names = kSandwichWithHeadNorms,
    .sizes = kGemma3Sizes,
    .tied = true,
    .norm = NormKind::rms_offset,
    .activation_key = "hidden_activation",
    .activation = "gelu_pytorch_tanh",
    .qkv_bias = kAttentionBias,
    .out_bias = kAttentionBias,
    .window = {.rule = WindowRule::pattern,
               .size = 4096,
               .pattern = 6,
               .pattern_key = "sliding_window_pattern"},
    .rope = {.theta = {"rope_theta", 1e6}, .sliding_theta = {"rope_local_base_freq", 1e4}},
    .scales = {.embedding_by_width = true,
               .attention_root = {"query_pre_attn_scalar", 256},
               .logits_softcap = {"final_logit_softcapping", 0}},
    .needed = kCausal};

// The same names inside a multimodal model.
constexpr OtherName kGemma3OtherNames[] = {{"model.", "model.language_model."},
                                           {"model.", "language_model.model."},
                                           {"lm_head.", "language_model.lm_head."}};
constexpr std::string_view kVision[] = {"vision_tower.", "multi_modal_projector.", "model.vision_tower.",
                                        "model.multi_modal_projector."};
constexpr Family gemma3(Family family) {
  family.model_type = "gemma3";
  family.architecture = "Gemma3ForConditionalGeneration";
  family.classifier = "Gemma3ForSequenceClassification";
  family.other_names = kGemma3OtherNames;
  family.text = "text_config";
  family.carried = kVision;
  return family;
}

constexpr Family kFamilies[] = {
    {.model_type = "llama",
     .architecture = "LlamaForCausalLM",
     .classifier = "LlamaForSequenceClassification",
     .qkv_bias = kAttentionBias,
     .out_bias = kAttentionBias,
     .mlp_bias = kMlpBias},
    {.model_type = "mistral",
     .architecture = "MistralForCausalLM",
     .classifier = "MistralForSequenceClassification",
     .window = {.rule = WindowRule::every_layer, .size = 4096}},
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
    {.model_type = "phi3",
     .architecture = "Phi3ForCausalLM",
     .classifier = "Phi3ForSequenceClassification",
     .names = {.qkv = "self_attn.qkv_proj", .gate_up = "mlp.gate_up_proj"},
     .sizes = {.positions = {"max_position_embeddings", 4096}},
     .eps = {"rms_norm_eps", 1e-5},
     .window = {.rule = WindowRule::every_layer},
     .rope = {.partial = {"partial_rotary_factor", 1.0},
              .original_positions = 4096,
              .old_longrope_names = true},
     .dropouts = {.attention_out = {"resid_pdrop", 0}, .mlp_out = {"resid_pdrop", 0}},
     .attention_out_first = true},
    {.model_type = "gemma",
     .architecture = "GemmaForCausalLM",
     .classifier = "GemmaForSequenceClassification",
     .sizes = {.positions = {"max_position_embeddings", 8192}, .head_dim = 256},
     .tied = true,
     .norm = NormKind::rms_offset,
     .activation = "gelu_pytorch_tanh",
     .gelu_is_tanh = true,
     .qkv_bias = kAttentionBias,
     .out_bias = kAttentionBias,
     .scales = {.embedding_by_width = true},
     .needed = kCausal},
    {.model_type = "gemma2",
     .architecture = "Gemma2ForCausalLM",
     .classifier = "Gemma2ForSequenceClassification",
     .names = kSandwich,
     .sizes = {.positions = {"max_position_embeddings", 8192}, .head_dim = 256},
     .tied = true,
     .norm = NormKind::rms_offset,
     .activation_key = "hidden_activation",
     .activation = "gelu_pytorch_tanh",
     .qkv_bias = kAttentionBias,
     .out_bias = kAttentionBias,
     .window = {.rule = WindowRule::pattern, .size = 4096, .pattern = 2},
     .scales = {.embedding_by_width = true,
                .attention_root = {"query_pre_attn_scalar", 256},
                .attention_softcap = {"attn_logit_softcapping", 50},
                .logits_softcap = {"final_logit_softcapping", 30}},
     .needed = kCausal},
    kGemma3Text,
    gemma3(kGemma3Text),
    {.model_type = "granite",
     .architecture = "GraniteForCausalLM",
     .qkv_bias = kAttentionBias,
     .out_bias = kAttentionBias,
     .mlp_bias = kMlpBias,
     .scales = {.embedding = {"embedding_multiplier", 1},
                .residual = {"residual_multiplier", 1},
                .attention = {"attention_multiplier", 1},
                .logits_divisor = {"logits_scaling", 1}}},
    {.model_type = "smollm3",
     .architecture = "SmolLM3ForCausalLM",
     .classifier = "SmolLM3ForSequenceClassification",
     .sizes = {.positions = {"max_position_embeddings", 32768}},
     .tied = true,
     .qkv_bias = kAttentionBias,
     .out_bias = kAttentionBias,
     .mlp_bias = kMlpBias,
     .window = {.rule = WindowRule::unturned_layers, .on = {"use_sliding_window", false}},
     .rope = {.theta = {"rope_theta", 2e6}, .unturned_every = {"no_rope_layer_interval", 4}}},
    {.model_type = "olmo2",
     .architecture = "Olmo2ForCausalLM",
     .classifier = "Olmo2ForSequenceClassification",
     .names = {.attention_norm = {},
               .attention_post_norm = "post_attention_layernorm",
               .mlp_norm = {},
               .mlp_post_norm = "post_feedforward_layernorm",
               .q_norm = "self_attn.q_norm",
               .k_norm = "self_attn.k_norm"},
     .norm = NormKind::rms_wide,
     .eps = {"rms_norm_eps", 1e-5},
     .qk_norm_whole = true,
     .qkv_bias = kAttentionBias,
     .out_bias = kAttentionBias},
    {.model_type = "cohere",
     .architecture = "CohereForCausalLM",
     .names = {.mlp_norm = {}, .q_norm = "self_attn.q_norm", .k_norm = "self_attn.k_norm"},
     .sizes = {.positions = {"max_position_embeddings", 8192}},
     .tied = true,
     .norm = NormKind::layer,
     .eps = {"layer_norm_eps", 1e-5},
     .qk_norm_by_head = true,
     .qk_norm = {"use_qk_norm", false},
     .qkv_bias = kAttentionBias,
     .out_bias = kAttentionBias,
     .parallel = kAlways,
     .rope = {.theta = {"rope_theta", 5e5}, .layout = RopeLayout::pairs},
     .scales = {.logits = {"logit_scale", 0.0625}}},
    {.model_type = "glm",
     .architecture = "GlmForCausalLM",
     .classifier = "GlmForSequenceClassification",
     .names = {.gate_up = "mlp.gate_up_proj"},
     .sizes = kGlmSizes,
     .eps = {"rms_norm_eps", 1.5625e-7},
     .qkv_bias = {"attention_bias", true},
     .rope = kGlmRope},
    {.model_type = "glm4",
     .architecture = "Glm4ForCausalLM",
     .classifier = "Glm4ForSequenceClassification",
     .names = kGlm4Names,
     .sizes = kGlmSizes,
     .eps = {"rms_norm_eps", 1.5625e-7},
     .qkv_bias = {"attention_bias", true},
     .rope = kGlmRope},
    {.model_type = "stablelm",
     .architecture = "StableLmForCausalLM",
     .classifier = "StableLmForSequenceClassification",
     .names = {.q_norm = "self_attn.q_layernorm.norms.{}", .k_norm = "self_attn.k_layernorm.norms.{}"},
     .sizes = {.positions = {"max_position_embeddings", 4096}},
     .norm = NormKind::layer,
     .norm_bias = true,
     .eps = {"layer_norm_eps", 1e-5},
     .qk_norm = {"qk_layernorm", false},
     .qkv_bias = {"use_qkv_bias", false},
     .parallel = {"use_parallel_residual", false},
     .one_norm_if_parallel = true,
     .rope = {.partial = {"partial_rotary_factor", 0.25}},
     .dropouts = {.mlp_out = {"hidden_dropout", 0}}},
    {.model_type = "gpt_neox",
     .architecture = "GPTNeoXForCausalLM",
     .classifier = "GPTNeoXForSequenceClassification",
     .names = kNeoxNames,
     .other_names = kNeoxOtherNames,
     .sizes = {.kv_heads = {"num_attention_heads"}},
     .norm = NormKind::layer,
     .norm_bias = true,
     .eps = {"layer_norm_eps", 1e-5},
     .activation = "gelu",
     .qkv_bias = {"attention_bias", true},
     .out_bias = {"attention_bias", true},
     .mlp_bias = kAlways,
     .parallel = {"use_parallel_residual", true},
     .rope = {.theta = {"rotary_emb_base", 10000}, .partial = {"rotary_pct", 0.25}},
     .dropouts = {.embedding = {"hidden_dropout", 0},
                  .attention_out = {"hidden_dropout", 0},
                  .mlp_out = {"hidden_dropout", 0}},
     .padding_row = false,
     .qkv_by_head = true},
    {.model_type = "gpt2",
     .architecture = "GPT2LMHeadModel",
     .classifier = "GPT2ForSequenceClassification",
     .names = kGpt2Names,
     .sizes = {.hidden = {"n_embd"},
               .intermediate = {"n_inner"},
               .intermediate_of_hidden = 4,
               .layers = {"n_layer"},
               .heads = {"n_head"},
               .kv_heads = {"n_head"},
               .positions = {"n_positions", 1024}},
     .tied = true,
     .norm = NormKind::layer,
     .norm_bias = true,
     .eps = {"layer_norm_epsilon", 1e-5},
     .activation_key = "activation_function",
     .activation = "gelu_new",
     .qkv_bias = kAlways,
     .out_bias = kAlways,
     .mlp_bias = kAlways,
     .rope = {.used = false},
     .dropouts = {.embedding = {"embd_pdrop", 0.1},
                  .attention = {"attn_pdrop", 0.1},
                  .attention_out = {"resid_pdrop", 0.1},
                  .mlp_out = {"resid_pdrop", 0.1}},
     .counts_first_labels = true,
     .padding_row = false,
     .transposed = true,
     .needed = kGpt2Needs},
    {.model_type = "mixtral",
     .architecture = "MixtralForCausalLM",
     .classifier = "MixtralForSequenceClassification",
     .names = {.router = "block_sparse_moe.gate",
               .expert = "block_sparse_moe.experts.{}.",
               .expert_gate = "w1",
               .expert_up = "w3",
               .expert_down = "w2"},
     .other_names = kMixtralOtherNames,
     .sizes = {.positions = {"max_position_embeddings", 131072}},
     .eps = {"rms_norm_eps", 1e-5},
     .window = {.rule = WindowRule::every_layer},
     .rope = {.theta = {"rope_theta", 1e6}},
     .experts = {.width = {"intermediate_size"},
                 .normalised = kAlways,
                 .jitter = {"router_jitter_noise", 0}}},
    {.model_type = "qwen2_moe",
     .architecture = "Qwen2MoeForCausalLM",
     .classifier = "Qwen2MoeForSequenceClassification",
     .names = {.router = "mlp.gate", .shared_router = "mlp.shared_expert_gate"},
     .sizes = {.positions = {"max_position_embeddings", 32768}},
     .qkv_bias = {"qkv_bias", true},
     .window = {.rule = WindowRule::early_layers, .on = {"use_sliding_window", false}, .size = 4096}},
    {.model_type = "qwen3_moe",
     .architecture = "Qwen3MoeForCausalLM",
     .classifier = "Qwen3MoeForSequenceClassification",
     .names = {.q_norm = "self_attn.q_norm", .k_norm = "self_attn.k_norm", .router = "mlp.gate"},
     .sizes = {.positions = {"max_position_embeddings", 32768}},
     .qkv_bias = kAttentionBias,
     .out_bias = kAttentionBias,
     .window = {.rule = WindowRule::every_layer, .on = {"use_sliding_window", false}, .size = 4096},
     .router_last = true},
};

}  // namespace

std::span<const Family> families() { return kFamilies; }

const Family* find_family(std::string_view model_type) {
  for (const Family& family : kFamilies)
    if (family.model_type == model_type) return &family;
  return nullptr;
}

std::string known_families() {
  std::string names;
  for (const Family& family : kFamilies)
    names += (names.empty() ? "" : ", ") + std::string(family.model_type);
  return names;
}

}  // namespace trl::model
