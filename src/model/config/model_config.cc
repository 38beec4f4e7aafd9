#include "model/config/model_config.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "model/config/config_keys.h"
#include "model/config/families.h"
#include "model/config/family_keys.h"
#include "model/config/parts.h"

namespace trl::model {

namespace {

using base::Json;

// transformers' names (activations.py).
kernels::Activation parse_activation(const ConfigKeys& keys, const Family& family) {
  using kernels::Activation;
  constexpr std::pair<std::string_view, Activation> kKnown[] = {
      {"silu", Activation::silu},          {"swish", Activation::silu},
      {"gelu", Activation::gelu},          {"gelu_pytorch_tanh", Activation::gelu_tanh},
      {"gelu_new", Activation::gelu_tanh}, {"gelu_fast", Activation::gelu_tanh},
      {"relu", Activation::relu},          {"relu2", Activation::relu_squared}};
  const std::string name = keys.text_or(family.activation_key, std::string(family.activation).c_str());
  std::string known;
  for (const auto& [theirs, activation] : kKnown) {
    if (name == theirs) {
      const bool approximate = activation == Activation::gelu && family.gelu_is_tanh;
      return approximate ? Activation::gelu_tanh : activation;
    }
    known += (known.empty() ? "" : ", ") + std::string(theirs);
  }
  fail(Status::unsupported, "{}: \"{}\" is \"{}\"; these are supported: {}", keys.origin(),
       family.activation_key, name, known);
}

void parse_scales(const ConfigKeys& keys, const Scales& scales, ModelConfig& config) {
  if (scales.embedding_by_width) config.embedding_scale = std::sqrt(static_cast<double>(config.hidden_size));
  config.embedding_multiplier = positive_of(keys, scales.embedding);
  config.residual_scale = positive_of(keys, scales.residual);
  const double root = positive_of(keys, scales.attention_root);
  config.attention_scale = scales.attention.key != nullptr
                               ? positive_of(keys, scales.attention)
                               : 1.0 / std::sqrt(root > 0 ? root : static_cast<double>(config.head_dim));
  config.logits_scale = positive_of(keys, scales.logits) / positive_of(keys, scales.logits_divisor);
  config.attention_softcap = softcap_of(keys, scales.attention_softcap);
  config.logits_softcap = softcap_of(keys, scales.logits_softcap);
}

DropoutRates parse_dropout(const ConfigKeys& keys, const Dropouts& dropouts) {
  return {rate_of(keys, dropouts.embedding), rate_of(keys, dropouts.attention),
          rate_of(keys, dropouts.attention_out), rate_of(keys, dropouts.mlp_out)};
}

const Family& need_family(const ConfigKeys& keys) {
  const std::string type = keys.text_or("model_type", "");
  if (type.empty()) fail(Status::format, "{}: \"model_type\" is missing", keys.origin());
  const Family* family = find_family(type);
  if (family == nullptr) {
    fail(Status::unsupported, "{}: model_type \"{}\" is not a known family; these are: {}", keys.origin(),
         type, known_families());
  }
  return *family;
}

void check_needed(const ConfigKeys& keys, const Family& family) {
  for (const FlagKey& needed : family.needed) {
    if (keys.flag_or(needed.key, needed.otherwise) == needed.otherwise) continue;
    fail(Status::unsupported, "{}: \"{}\" is {}; only {} is supported", keys.origin(), needed.key,
         !needed.otherwise, needed.otherwise);
  }
}

const Json& text_part(const Json& json, const ConfigKeys& keys, const Family& family) {
  if (family.text == nullptr) return json;
  const Json& part = keys.need(family.text);
  if (!part.is_object()) fail(Status::format, "{}: \"{}\" is not an object", keys.origin(), family.text);
  return part;
}

// Checks the method; the tensors themselves tell which are quantised, and how.
void check_quantization(const ConfigKeys& keys) {
  const Json* const quantization = keys.find("quantization_config");
  if (quantization == nullptr) return;
  const Json method = quantization->is_object() ? quantization->value("quant_method", Json()) : Json();
  if (method == "bitsandbytes") return;
  fail(Status::unsupported,
       "{}: \"quantization_config\" has the quant_method {}; weights that bitsandbytes quantised are read, "
       "and float32, bfloat16 and float16",
       keys.origin(), method.dump());
}

ModelConfig read_config(const Json& json, std::string_view origin, Head head) {
  if (!json.is_object()) fail(Status::format, "{}: not a JSON object", origin);
  const ConfigKeys whole(json, origin);
  const Family& family = need_family(whole);
  check_architecture(whole, family, head);
  const ConfigKeys keys(text_part(json, whole, family), origin);
  check_needed(keys, family);
  check_quantization(whole);
  ModelConfig config;
  config.family = &family;
  config.model_type = family.model_type;
  config.architecture = head == Head::language ? family.architecture : family.classifier;
  if (head == Head::scores) config.labels = count_labels(whole);
  if (head == Head::reward) parse_score(whole, config);
  parse_sizes(keys, family.sizes, config);
  config.pad_token_id = family.padding_row ? keys.row_or_none("pad_token_id", config.vocab_size) : -1;
  config.norm_eps = positive_of(keys, family.eps);
  config.activation = parse_activation(keys, family);
  config.tie_word_embeddings = head == Head::language && keys.flag_or("tie_word_embeddings", family.tied);
  config.attention_qkv_bias = flag_of(keys, family.qkv_bias);
  config.attention_out_bias = flag_of(keys, family.out_bias);
  config.mlp_bias = flag_of(keys, family.mlp_bias);
  config.qk_norm = !family.names.q_norm.empty() && flag_of(keys, family.qk_norm);
  config.parallel = flag_of(keys, family.parallel);
  config.dropout = parse_dropout(keys, family.dropouts);
  parse_turned_layers(keys, family.rope, config);
  parse_windows(keys, family.window, config);
  parse_scales(keys, family.scales, config);
  parse_experts(keys, family, config);
  config.rope = parse_rope(keys, family, config.max_position_embeddings, config.head_dim);
  config.sliding_rope = parse_sliding_rope(keys, family, config.max_position_embeddings, config.head_dim);
  return config;
}

}  // namespace

ModelConfig parse_config(const Json& json, std::string_view origin, Head head) {
  return reading(origin, [&] { return read_config(json, origin, head); });
}

int64_t ModelConfig::learned_positions() const {
  return family->names.positions.empty() ? 0 : max_position_embeddings;
}

// The max_position_embeddings of Gemma 3 already counts the stretched layers; the sliding ones have their own
// rope.
int64_t ModelConfig::positions() const {
  if (const int64_t learned = learned_positions(); learned > 0) return learned;
  const int64_t stretched = sliding_rope ? 0 : rope.stretched_positions();
  return std::max({max_position_embeddings, model_max_length, stretched});
}

std::vector<int32_t> parse_end_ids(const Json& json, std::string_view origin) {
  return reading(origin, [&] {
    if (!json.is_object()) fail(Status::format, "{}: not a JSON object", origin);
    return ConfigKeys(json, origin).ids("eos_token_id");
  });
}

}  // namespace trl::model
