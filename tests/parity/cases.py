"""The cases: a configuration of transformers each, small in every size but with all that the family brings."""

LLAMA_SIZES = dict(
    vocab_size=97,
    hidden_size=32,
    intermediate_size=40,
    num_hidden_layers=3,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=64,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
)


def sizes(**changes):
    return {**LLAMA_SIZES, **changes}


def rope(kind, theta=10000.0, **more):
    return {"rope_type": kind, "rope_theta": theta, **more}


# name -> (configuration class, its arguments, what differs from DEFAULTS).
DEFAULTS = {
    "runs": [[26, 17, 9]],  # lengths of the rows of each padded batch
    "prompts": [6, 11],  # lengths of the prompts that are continued greedily
    "new_tokens": 16,
    "random": 0,  # what dropout is drawn from while gradients are made; 0: there is none
}

CASES = {
    "llama_bias_linear": (
        "LlamaConfig",
        sizes(attention_bias=True, mlp_bias=True, rope_parameters=rope("linear", factor=4.0)),
    ),
    "llama_dynamic": (
        "LlamaConfig",
        sizes(max_position_embeddings=16, rope_parameters=rope("dynamic", factor=2.0)),
        {"runs": [[26, 17, 9], [14, 8]], "prompts": [6, 19]},
    ),
    "llama_yarn": (
        "LlamaConfig",
        sizes(
            head_dim=16,
            rope_parameters=rope("yarn", factor=4.0, original_max_position_embeddings=16, beta_fast=4.0, beta_slow=1.0),
        ),
    ),
    "llama_yarn_mscale": (
        "LlamaConfig",
        sizes(
            head_dim=16,
            num_hidden_layers=2,
            tie_word_embeddings=True,
            rope_parameters=rope(
                "yarn",
                factor=4.0,
                original_max_position_embeddings=16,
                beta_fast=4.0,
                mscale=1.0,
                mscale_all_dim=0.5,
                truncate=False,
            ),
        ),
    ),
    "llama_proportional": (
        "LlamaConfig",
        sizes(head_dim=12, rope_parameters=rope("proportional", partial_rotary_factor=0.75, factor=2.0)),
    ),
    "mistral_window": ("MistralConfig", sizes(sliding_window=8, head_dim=12)),
    "qwen2_window": (
        "Qwen2Config",
        sizes(
            use_sliding_window=True,
            sliding_window=8,
            tie_word_embeddings=True,
            layer_types=["full_attention", "sliding_attention", "full_attention"],
        ),
    ),
    "qwen3_window": (
        "Qwen3Config",
        sizes(
            head_dim=12,
            attention_bias=True,
            use_sliding_window=True,
            sliding_window=8,
            max_window_layers=1,
        ),
    ),
    "mixtral": (
        "MixtralConfig",
        sizes(num_local_experts=4, num_experts_per_tok=2, router_aux_loss_coef=0.02, num_hidden_layers=2),
    ),
    "qwen2_moe": (
        "Qwen2MoeConfig",
        sizes(
            num_experts=5,
            num_experts_per_tok=2,
            moe_intermediate_size=24,
            shared_expert_intermediate_size=16,
            mlp_only_layers=[1],
            norm_topk_prob=False,
            router_aux_loss_coef=0.02,
        ),
    ),
    "qwen3_moe": (
        "Qwen3MoeConfig",
        sizes(
            head_dim=12,
            num_experts=6,
            num_experts_per_tok=3,
            moe_intermediate_size=24,
            decoder_sparse_step=2,
            norm_topk_prob=True,
            router_aux_loss_coef=0.02,
            num_hidden_layers=4,
        ),
    ),
    "gemma": ("GemmaConfig", sizes(head_dim=16, num_key_value_heads=1, num_attention_heads=2)),
    "gemma2": (
        "Gemma2Config",
        sizes(
            head_dim=12,
            query_pre_attn_scalar=24,
            sliding_window=8,
            attn_logit_softcapping=4.0,
            final_logit_softcapping=6.0,
        ),
    ),
    "gemma3_text": (
        "Gemma3TextConfig",
        sizes(
            head_dim=12,
            query_pre_attn_scalar=24,
            sliding_window=8,
            layer_types=["sliding_attention", "full_attention", "sliding_attention"],
            rope_parameters={
                "sliding_attention": rope("default"),
                "full_attention": rope("linear", 1e6, factor=8.0),
            },
        ),
    ),
    "gemma3": (
        "Gemma3Config",
        dict(
            text_config=dict(
                sizes(
                    head_dim=12,
                    query_pre_attn_scalar=24,
                    sliding_window=8,
                    layer_types=["sliding_attention", "full_attention", "sliding_attention"],
                ),
                model_type="gemma3_text",
            ),
            vision_config=dict(
                model_type="siglip_vision_model",
                hidden_size=16,
                intermediate_size=24,
                num_hidden_layers=1,
                num_attention_heads=2,
                image_size=8,
                patch_size=4,
            ),
            mm_tokens_per_image=4,
            image_token_index=96,
            boi_token_index=95,
            eoi_token_index=94,
        ),
    ),
    "phi3": (
        "Phi3Config",
        sizes(sliding_window=8, num_hidden_layers=2, original_max_position_embeddings=64),
    ),
    "phi3_longrope": (
        "Phi3Config",
        sizes(
            hidden_size=64,
            num_hidden_layers=2,
            tie_word_embeddings=True,
            original_max_position_embeddings=16,
            rope_parameters=rope(
                "longrope",
                partial_rotary_factor=0.75,
                original_max_position_embeddings=16,
                short_factor=[1.0, 1.05, 1.1, 1.2, 1.3, 1.5],
                long_factor=[1.0, 1.5, 2.25, 3.5, 4.5, 6.0],
            ),
        ),
        {"runs": [[26, 17, 9], [16, 9, 4]], "prompts": [3, 18], "new_tokens": 12},
    ),
    "phi3_longrope_crossing": (
        "Phi3Config",
        sizes(
            num_hidden_layers=2,
            original_max_position_embeddings=16,
            rope_parameters=rope(
                "longrope",
                original_max_position_embeddings=16,
                short_factor=[1.0, 1.1, 1.2, 1.3],
                long_factor=[1.0, 1.5, 3.0, 6.0],
            ),
        ),
        {"runs": [[18, 5]], "prompts": [10]},
    ),
    "smollm3": (
        "SmolLM3Config",
        sizes(no_rope_layers=[1, 0, 1], tie_word_embeddings=True, rope_parameters=rope("default", 5e4)),
    ),
    "olmo2": ("Olmo2Config", sizes()),
    "granite": (
        "GraniteConfig",
        sizes(
            embedding_multiplier=3.0,
            logits_scaling=0.5,
            residual_multiplier=0.75,
            attention_multiplier=0.25,
            tie_word_embeddings=True,
        ),
    ),
    "cohere": ("CohereConfig", sizes(num_hidden_layers=2, logit_scale=0.25, attention_bias=True)),
    "cohere_head_norms": (
        "CohereConfig",
        sizes(
            num_hidden_layers=2,
            logit_scale=0.5,
            use_qk_norm=True,
            tie_word_embeddings=False,
            rope_parameters=rope("linear", 5e5, factor=2.0),
        ),
    ),
    "glm": ("GlmConfig", sizes(num_hidden_layers=2, head_dim=12, rope_parameters=rope("default", partial_rotary_factor=0.5))),
    "glm4": (
        "Glm4Config",
        sizes(
            num_hidden_layers=2,
            head_dim=16,
            attention_bias=False,
            tie_word_embeddings=True,
            rope_parameters=rope("yarn", factor=4.0, original_max_position_embeddings=16, partial_rotary_factor=0.75),
        ),
    ),
    "gpt2": (
        "GPT2Config",
        dict(
            vocab_size=97,
            n_positions=64,
            n_embd=32,
            n_layer=3,
            n_head=4,
            n_inner=72,
            activation_function="gelu_new",
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
        ),
    ),
    "gpt_neox": (
        "GPTNeoXConfig",
        dict(
            {key: value for key, value in LLAMA_SIZES.items() if key != "num_key_value_heads"},
            hidden_size=48,
            num_attention_heads=3,
            num_hidden_layers=2,
            rope_parameters=rope("default", partial_rotary_factor=0.25),
        ),
    ),
    "gpt_neox_sequential": (
        "GPTNeoXConfig",
        dict(
            {key: value for key, value in LLAMA_SIZES.items() if key != "num_key_value_heads"},
            num_attention_heads=2,
            num_hidden_layers=2,
            use_parallel_residual=False,
            attention_bias=False,
            tie_word_embeddings=True,
            rope_parameters=rope("default", partial_rotary_factor=0.5),
        ),
    ),
    "stablelm": (
        "StableLmConfig",
        sizes(
            num_attention_heads=2,
            num_key_value_heads=2,
            use_qkv_bias=True,
            rope_parameters=rope("default", partial_rotary_factor=0.25),
        ),
    ),
    "stablelm_parallel": (
        "StableLmConfig",
        sizes(
            use_parallel_residual=True,
            num_hidden_layers=2,
            rope_parameters=rope("default", partial_rotary_factor=0.5),
        ),
    ),
    "stablelm_head_norms": (
        "StableLmConfig",
        sizes(
            qk_layernorm=True,
            use_parallel_residual=True,
            num_hidden_layers=2,
            rope_parameters=rope("default", partial_rotary_factor=0.5),
        ),
    ),
}

# Training with dropout: another configuration of these cases, which is not a classifier.
DROPOUT = {
    "qwen2_window": dict(attention_dropout=0.25),
    "phi3": dict(resid_pdrop=0.2, attention_dropout=0.1, embd_pdrop=0.3),
    "stablelm": dict(hidden_dropout=0.2, attention_dropout=0.1),
    "gpt_neox": dict(hidden_dropout=0.2, attention_dropout=0.1),
    "gpt2": dict(resid_pdrop=0.2, attn_pdrop=0.3),
}
for name, rates in DROPOUT.items():
    config, arguments, *changes = CASES[name]
    CASES[f"{name}_dropout"] = (config, {**arguments, **rates}, {**(changes[0] if changes else {}), "random": 20261122})

# Classifiers: of these cases with another head. Cohere and Granite have none in transformers.
CLASSIFIERS = [
    "llama_bias_linear",
    "mistral_window",
    "qwen2_window",
    "qwen3_window",
    "mixtral",
    "qwen2_moe",
    "qwen3_moe",
    "gemma",
    "gemma2",
    "gemma3_text",
    "gemma3",
    "phi3",
    "smollm3",
    "olmo2",
    "glm",
    "glm4",
    "gpt2",
    "gpt_neox",
    "stablelm",
]


def names():
    return [*CASES, *(f"{name}_classifier" for name in CLASSIFIERS)]


def find(name):
    """-> (configuration class, its arguments, options, whether it is the classifier)."""
    classifier = name.endswith("_classifier")
    config, arguments, *changes = CASES[name.removesuffix("_classifier")]
    options = {**DEFAULTS, **(changes[0] if changes else {})}
    if classifier:
        arguments = {**arguments, "num_labels": 3 if name.startswith("llama") else 1}
    return config, arguments, options, classifier
