#include "model/config/model_config.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "model/config/config_keys.h"
#include "model/config/families.h"

namespace trl::model {

namespace {

using base::Json;

bool flag_of(const ConfigKeys& keys, const FlagKey& flag) {
  return flag.key == nullptr ? flag.otherwise : keys.flag_or(flag.key, flag.otherwise);
}

double positive_of(const ConfigKeys& keys, const NumberKey& number) {
  return number.key == nullptr ? number.otherwise : keys.positive_or(number.key, number.otherwise);
}

// The cap: as in transformers' configurations, the family's value if the key is missing, none if it is null.
double softcap_of(const ConfigKeys& keys, const NumberKey& number) {
  if (number.key == nullptr || !keys.has(number.key)) return number.otherwise;
  return keys.positive_or(number.key, 0);
}

// A number from 0 to 1.
double rate_of(const ConfigKeys& keys, const NumberKey& number) {
  if (number.key == nullptr || keys.find(number.key) == nullptr) return number.otherwise;
  const double rate = keys.number(number.key);
  if (!(rate >= 0 && rate <= 1)) {
    fail(Status::format, "{}: \"{}\" is {}; expected a number from 0 to 1", keys.origin(), number.key,
         keys.need(number.key).dump());
  }
  return rate;
}

int64_t size_of(const ConfigKeys& keys, const SizeKey& size, int64_t limit = kMaxExtent) {
  return size.otherwise > 0 ? keys.size_or(size.key, size.otherwise, limit) : keys.size(size.key, limit);
}

// The same for the window.
int64_t window_size(const ConfigKeys& keys, const Window& window) {
  if (!keys.has("sliding_window")) return window.size;
  return keys.size_or("sliding_window", 0, INT32_MAX);
}

// The list of layer types; null: none. Checked even if nothing slides: a list that does not fit was written
// for another model.
const Json* find_layer_types(const ConfigKeys& keys, int64_t layers) {
  const Json* types = keys.find("layer_types");
  if (types == nullptr) return nullptr;
  if (!types->is_array() || types->size() != static_cast<size_t>(layers))
    fail(Status::format, "{}: \"layer_types\" is not a list of {} entries", keys.origin(), layers);
  for (size_t i = 0; i < types->size(); ++i) {
    const Json& type = (*types)[i];
    if (type == "full_attention" || type == "sliding_attention") continue;
    fail(Status::unsupported,
         "{}: \"layer_types\"[{}] is {}; full_attention and sliding_attention are supported", keys.origin(),
         i, type.dump());
  }
  return types;
}

// "no_rope_layers" has 1 for a layer that is turned.
void parse_turned_layers(const ConfigKeys& keys, const Rope& rope, ModelConfig& config) {
  config.turned_layers.assign(static_cast<size_t>(config.num_hidden_layers), rope.used);
  if (rope.unturned_every.key == nullptr) return;
  const Json* list = keys.find("no_rope_layers");
  if (list != nullptr && (!list->is_array() || list->size() != config.turned_layers.size())) {
    fail(Status::format, "{}: \"no_rope_layers\" is not a list of {} entries", keys.origin(),
         config.num_hidden_layers);
  }
  const int64_t every = keys.size_or(rope.unturned_every.key, rope.unturned_every.otherwise);
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
    const auto at = static_cast<size_t>(i);
    config.turned_layers[at] = list != nullptr ? (*list)[at] != 0 : (i + 1) % every != 0;
  }
}

// Whether a layer slides if layer_types does not tell.
bool slides(const ConfigKeys& keys, const Window& window, const ModelConfig& config, int64_t layer) {
  if (window.rule == WindowRule::every_layer) return true;
  if (window.rule == WindowRule::unturned_layers) return !config.turned_layers[static_cast<size_t>(layer)];
  if (window.rule == WindowRule::late_layers) {
    const bool zero = keys.find("max_window_layers") != nullptr && keys.number("max_window_layers") == 0;
    return layer >= (zero ? 0 : keys.size_or("max_window_layers", 28));
  }
  if (window.rule == WindowRule::early_layers)
    return layer % 2 == 0 && layer < keys.size_or("max_window_layers", 28);
  const int64_t n =
      window.pattern_key == nullptr ? window.pattern : keys.size_or(window.pattern_key, window.pattern);
  return window.rule == WindowRule::pattern && (layer + 1) % n != 0;
}

void parse_windows(const ConfigKeys& keys, const Window& window, ModelConfig& config) {
  config.sliding_layers.assign(static_cast<size_t>(config.num_hidden_layers), false);
  const Json* types = find_layer_types(keys, config.num_hidden_layers);
  if (window.rule == WindowRule::none || !flag_of(keys, window.on)) return;
  config.sliding_window = window_size(keys, window);
  if (config.sliding_window == 0) return;
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
    const auto at = static_cast<size_t>(i);
    const bool listed = types != nullptr && window.rule != WindowRule::every_layer;
    config.sliding_layers[at] =
        listed ? (*types)[at] == "sliding_attention" : slides(keys, window, config, i);
  }
}

void parse_heads(const ConfigKeys& keys, const Sizes& sizes, ModelConfig& config) {
  config.num_attention_heads = size_of(keys, sizes.heads);
  const int64_t as_many =
      sizes.kv_heads.otherwise > 0 ? sizes.kv_heads.otherwise : config.num_attention_heads;
  config.num_key_value_heads = keys.size_or(sizes.kv_heads.key, as_many);
  if (config.num_attention_heads % config.num_key_value_heads != 0) {
    fail(Status::format, "{}: \"{}\" ({}) is not a multiple of \"{}\" ({})", keys.origin(), sizes.heads.key,
         config.num_attention_heads, sizes.kv_heads.key, config.num_key_value_heads);
  }
  if (keys.find("head_dim") != nullptr) {
    config.head_dim = keys.size("head_dim");
  } else if (sizes.head_dim > 0) {
    config.head_dim = sizes.head_dim;
  } else if (config.hidden_size % config.num_attention_heads == 0) {
    config.head_dim = config.hidden_size / config.num_attention_heads;
  } else {
    fail(Status::format, "{}: \"{}\" ({}) is not a multiple of \"{}\" ({})", keys.origin(), sizes.hidden.key,
         config.hidden_size, sizes.heads.key, config.num_attention_heads);
  }
  if (config.head_dim % 2 != 0)
    fail(Status::format, "{}: \"head_dim\" is {}; expected an even number", keys.origin(), config.head_dim);
}

void parse_sizes(const ConfigKeys& keys, const Sizes& sizes, ModelConfig& config) {
  config.vocab_size = size_of(keys, sizes.vocab);
  config.hidden_size = size_of(keys, sizes.hidden);
  SizeKey intermediate = sizes.intermediate;
  if (sizes.intermediate_of_hidden > 0)
    intermediate.otherwise = sizes.intermediate_of_hidden * config.hidden_size;
  config.intermediate_size = size_of(keys, intermediate);
  config.num_hidden_layers = size_of(keys, sizes.layers, 100'000);
  parse_heads(keys, sizes, config);
  config.max_position_embeddings = size_of(keys, sizes.positions, INT32_MAX);
  const Json* const longer = keys.find("model_max_length");
  if (longer != nullptr && longer->is_number_integer()) config.model_max_length = longer->get<int64_t>();
}

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

bool has_experts(const ConfigKeys& keys, int64_t every, int64_t layer) {
  const Json* dense = keys.find("mlp_only_layers");
  const bool listed = dense != nullptr && std::ranges::find(*dense, Json(layer)) != dense->end();
  return !listed && (layer + 1) % every == 0;
}

void parse_experts(const ConfigKeys& keys, const Family& family, ModelConfig& config) {
  config.expert_layers.assign(static_cast<size_t>(config.num_hidden_layers), false);
  if (family.names.router.empty()) return;
  const Experts& rule = family.experts;
  ExpertsConfig& experts = config.experts;
  experts.count = keys.size(keys.find("num_local_experts") != nullptr ? "num_local_experts" : rule.count.key);
  experts.chosen = keys.size(rule.chosen.key, experts.count);
  experts.width = size_of(keys, rule.width);
  if (!family.names.shared_router.empty()) experts.shared_width = size_of(keys, rule.shared_width);
  experts.normalised = flag_of(keys, rule.normalised);
  experts.balance =
      keys.find(rule.balance.key) != nullptr ? keys.number(rule.balance.key) : rule.balance.otherwise;
  experts.jitter = rate_of(keys, rule.jitter);
  const int64_t every = size_of(keys, rule.every);
  for (int64_t i = 0; i < config.num_hidden_layers; ++i)
    config.expert_layers[static_cast<size_t>(i)] = has_experts(keys, every, i);
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

constexpr std::string_view kClassifier = "ForSequenceClassification";

// A classifier's weights are a language model's except for the head, which would be missing or made from the
// embedding. A name without a task (LlamaModel) promises no head.
void check_architecture(const ConfigKeys& keys, const Family& family, Head head) {
  if (head != Head::language && family.classifier.empty()) {
    fail(Status::unsupported, "{}: transformers has no sequence classification of model_type \"{}\"",
         keys.origin(), family.model_type);
  }
  const Json* given = keys.find("architectures");
  if (given == nullptr || (given->is_array() && given->empty())) return;
  const Json& first = given->is_array() ? given->front() : *given;
  const std::string name = first.is_string() ? first.get<std::string>() : "For";
  const size_t task = name.find("For");
  const std::string_view wanted = head == Head::language ? family.architecture : family.classifier;
  if (task == std::string::npos || name == wanted) return;
  if (head != Head::scores && name.substr(task) == "ForCausalLM") return;
  if (head != Head::language && name.substr(task) == kClassifier) return;
  fail(Status::unsupported, "{}: \"architectures\" begins with {}; a {} ({}) is expected", keys.origin(),
       first.dump(), head == Head::language ? "language model" : "classifier", wanted);
}

bool names_classifier(const ConfigKeys& keys) {
  const Json* given = keys.find("architectures");
  if (given != nullptr && given->is_array() && !given->empty()) given = &given->front();
  return given != nullptr && given->is_string() && given->get<std::string>().ends_with(kClassifier);
}

// Counts labels as transformers does.
int64_t count_labels(const ConfigKeys& keys) {
  const Json* names = keys.find("id2label");
  if (names != nullptr && names->is_object() && !names->empty()) return std::ssize(*names);
  return keys.size_or("num_labels", 2);
}

// Only for a reward model; a language model may count labels, which means nothing.
void parse_score(const ConfigKeys& keys, ModelConfig& config) {
  config.labels = 1;
  config.new_head = !names_classifier(keys);
  config.initializer_range = keys.positive_or("initializer_range", config.initializer_range);
  const bool counted = keys.find("id2label") != nullptr || keys.find("num_labels") != nullptr;
  if (config.new_head || !counted || count_labels(keys) == 1) return;
  fail(Status::unsupported,
       "{}: the model has {} labels (num_labels, id2label); a reward model has one score: give a classifier "
       "with num_labels 1, or a language model, which gets a new head",
       keys.origin(), count_labels(keys));
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

}  // namespace

namespace {

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
