#include "model/files/generation_config.h"

#include <algorithm>
#include <span>
#include <string_view>

namespace trl::model {

namespace {

using base::Json;

// The fields of GenerationConfig that config.json has too.
constexpr std::string_view kShared[] = {
    "bos_token_id",      "eos_token_id",         "pad_token_id", "decoder_start_token_id",
    "output_attentions", "output_hidden_states", "use_cache"};
// Its other fields.
constexpr std::string_view kGenerationOnly[] = {"assistant_confidence_threshold",
                                                "assistant_early_exit",
                                                "assistant_lookbehind",
                                                "bad_words_ids",
                                                "begin_suppress_tokens",
                                                "cache_implementation",
                                                "constraints",
                                                "disable_compile",
                                                "diversity_penalty",
                                                "do_sample",
                                                "dola_layers",
                                                "early_stopping",
                                                "encoder_no_repeat_ngram_size",
                                                "encoder_repetition_penalty",
                                                "epsilon_cutoff",
                                                "eta_cutoff",
                                                "exponential_decay_length_penalty",
                                                "force_words_ids",
                                                "forced_bos_token_id",
                                                "forced_eos_token_id",
                                                "guidance_scale",
                                                "length_penalty",
                                                "low_memory",
                                                "max_length",
                                                "max_matching_ngram_size",
                                                "max_new_tokens",
                                                "max_time",
                                                "min_length",
                                                "min_new_tokens",
                                                "min_p",
                                                "no_repeat_ngram_size",
                                                "num_assistant_tokens",
                                                "num_assistant_tokens_schedule",
                                                "num_beam_groups",
                                                "num_beams",
                                                "num_return_sequences",
                                                "output_logits",
                                                "output_scores",
                                                "penalty_alpha",
                                                "prefill_chunk_size",
                                                "prompt_lookup_num_tokens",
                                                "remove_invalid_values",
                                                "renormalize_logits",
                                                "repetition_penalty",
                                                "return_dict_in_generate",
                                                "sequence_bias",
                                                "stop_strings",
                                                "suppress_tokens",
                                                "target_lookbehind",
                                                "temperature",
                                                "token_healing",
                                                "top_h",
                                                "top_k",
                                                "top_p",
                                                "typical_p"};

bool among(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

Json take_generation_config(Json& config) {
  Json generation = {{"_from_model_config", true}}, rest = Json::object();
  for (const auto& [name, value] : config.items()) {
    const bool moves = among(kGenerationOnly, name);
    if (!moves) rest[name] = value;
    if ((moves || among(kShared, name)) && !value.is_null()) generation[name] = value;
  }
  config = std::move(rest);
  return generation;
}

}  // namespace trl::model
