#include "model/special_tokens.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "base/error.h"

namespace trl::model {

namespace {

using base::Json;
using engine::EndToken;

constexpr const char* kEos = "eos_token_id";

// The fields of GenerationConfig that config.json has too.
constexpr std::string_view kShared[] = {
    "bos_token_id",         kEos,       "pad_token_id", "decoder_start_token_id", "output_attentions",
    "output_hidden_states", "use_cache"};
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
  return std::find(names.begin(), names.end(), name) != names.end();
}

Json value_or_null(const Json& json, const char* name) { return json.value(name, Json()); }

bool holds(const Json& value, int32_t id) {
  return value.is_array() ? std::find(value.begin(), value.end(), Json(id)) != value.end() : value == id;
}

// [id, previous ids]
Json before_others(int32_t id, const Json& value) {
  Json ids = Json::array({id});
  for (const Json& other : value.is_array() ? value : Json::array({value})) {
    if (!other.is_null() && other != id) ids.push_back(other);
  }
  return ids;
}

void align(Json& config, Json* generation, const char* name, int32_t id) {
  const Json in_config = value_or_null(config, name),
             in_generation = generation != nullptr ? value_or_null(*generation, name) : Json(id);
  if (holds(in_config, id) && holds(in_generation, id)) return;
  const bool several = std::string_view(name) == kEos;
  config[name] = several && in_config.is_array() ? before_others(id, in_config) : Json(id);
  if (generation != nullptr) (*generation)[name] = several ? before_others(id, in_generation) : Json(id);
}

// The step of SFTTrainer before Trainer aligns.
void take_end_token(Json& config, Json* generation, int32_t id, EndToken how) {
  if (how == EndToken::aligned) return;
  config[kEos] = id;
  if (generation == nullptr) return;
  if (how == EndToken::replaced) {
    (*generation)[kEos] = id;
  } else if (const Json now = value_or_null(*generation, kEos); !holds(now, id)) {
    (*generation)[kEos] = before_others(id, now);
  }
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

std::vector<std::string> align_special_tokens(Json& config, Json* generation,
                                              const engine::SpecialTokens& tokens) {
  constexpr std::array kNames = {kEos, "bos_token_id", "pad_token_id"};
  const std::array ids = {tokens.eos, tokens.bos, tokens.pad};
  const auto of_generation = [&] { return generation != nullptr ? *generation : Json::object(); };
  const Json before[] = {config, of_generation()};
  if (tokens.eos >= 0) take_end_token(config, generation, tokens.eos, tokens.end);
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (ids[i] >= 0) align(config, generation, kNames[i], ids[i]);
  }
  const Json after = of_generation();
  std::vector<std::string> changes;
  for (const char* name : kNames) {
    const Json was_config = value_or_null(before[0], name), was = value_or_null(before[1], name);
    const Json is_config = value_or_null(config, name), is = value_or_null(after, name);
    if (was_config != is_config)
      changes.push_back(fmt::format("{} of config.json {} -> {}", name, was_config.dump(), is_config.dump()));
    if (was != is)
      changes.push_back(fmt::format("{} of generation_config.json {} -> {}", name, was.dump(), is.dump()));
  }
  return changes;
}

}  // namespace trl::model
