#include "model/config.h"

#include "base/error.h"
#include "model/config_keys.h"
#include "model/families.h"

namespace trl::model {

namespace {

using base::Json;

// New style: "rope_parameters" holds all. Old style: "rope_theta" beside "rope_scaling", which may be null
// and may call the type "type".
RopeConfig parse_rope(const ConfigKeys& keys, int64_t max_positions) {
  RopeConfig rope;
  const Json empty = Json::object();
  const Json* given = keys.find("rope_scaling");
  if (given == nullptr) given = keys.find("rope_parameters");
  if (given == nullptr) given = &empty;
  if (!given->is_object()) fail(Status::format, "{}: rope parameters are not an object", keys.origin());
  const ConfigKeys inner(*given, keys.origin());
  rope.theta = inner.find("rope_theta") != nullptr ? inner.positive("rope_theta")
                                                   : keys.positive_or("rope_theta", 10000.0);
  rope.type = inner.text_or("rope_type", inner.text_or("type", "default").c_str());
  for (const ConfigKeys& place : {inner, keys}) {
    if (place.positive_or("partial_rotary_factor", 1.0) != 1.0) {
      fail(Status::unsupported, "{}: \"partial_rotary_factor\" is {}; only 1 is supported", keys.origin(),
           place.number("partial_rotary_factor"));
    }
  }
  if (rope.type == "default") return rope;
  if (rope.type != "linear" && rope.type != "llama3") {
    fail(Status::unsupported, "{}: rope type \"{}\" is not supported; these are: default, linear, llama3",
         keys.origin(), rope.type);
  }
  rope.factor = inner.positive("factor");
  if (rope.type == "linear") return rope;
  rope.low_freq_factor = inner.positive("low_freq_factor");
  rope.high_freq_factor = inner.positive("high_freq_factor");
  if (rope.high_freq_factor <= rope.low_freq_factor) {
    fail(Status::format, "{}: \"high_freq_factor\" is {}; expected more than \"low_freq_factor\" ({})",
         keys.origin(), rope.high_freq_factor, rope.low_freq_factor);
  }
  rope.original_max_position_embeddings =
      inner.size_or("original_max_position_embeddings", max_positions, INT32_MAX);
  return rope;
}

bool has_bias(BiasRule rule, const ConfigKeys& keys, const char* key) {
  return rule == BiasRule::always || (rule == BiasRule::by_key && keys.flag_or(key, false));
}

// As transformers' configurations: 4096 where the key is missing, none where it is null.
int64_t window_size(const ConfigKeys& keys) {
  if (!keys.has("sliding_window")) return 4096;
  return keys.size_or("sliding_window", 0, INT32_MAX);
}

// Also where nothing slides: a list that does not fit was written for another model. null: there is none.
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

// layer_types says it layer by layer; without it the layers from max_window_layers on slide.
void parse_sliding(const ConfigKeys& keys, SlidingRule rule, ModelConfig& config) {
  config.sliding_layers.assign(static_cast<size_t>(config.num_hidden_layers), false);
  const Json* types = find_layer_types(keys, config.num_hidden_layers);
  if (rule == SlidingRule::none) return;
  if (rule == SlidingRule::by_layer && !keys.flag_or("use_sliding_window", false)) return;
  config.sliding_window = window_size(keys);
  if (config.sliding_window == 0) return;
  if (rule == SlidingRule::every_layer) {
    config.sliding_layers.assign(config.sliding_layers.size(), true);
    return;
  }
  if (types == nullptr) {
    const int64_t first = keys.find("max_window_layers") == nullptr || keys.number("max_window_layers") != 0
                              ? keys.size_or("max_window_layers", 28)
                              : 0;
    for (int64_t i = first; i < config.num_hidden_layers; ++i)
      config.sliding_layers[static_cast<size_t>(i)] = true;
    return;
  }
  for (size_t i = 0; i < types->size(); ++i) config.sliding_layers[i] = (*types)[i] == "sliding_attention";
}

void parse_heads(const ConfigKeys& keys, const Family& family, ModelConfig& config) {
  config.num_attention_heads = keys.size("num_attention_heads");
  config.num_key_value_heads = keys.size_or("num_key_value_heads", config.num_attention_heads);
  if (config.num_attention_heads % config.num_key_value_heads != 0) {
    fail(Status::format, "{}: \"num_attention_heads\" ({}) is no multiple of \"num_key_value_heads\" ({})",
         keys.origin(), config.num_attention_heads, config.num_key_value_heads);
  }
  if (keys.find("head_dim") != nullptr) {
    config.head_dim = keys.size("head_dim");
  } else if (family.default_head_dim > 0) {
    config.head_dim = family.default_head_dim;
  } else if (config.hidden_size % config.num_attention_heads == 0) {
    config.head_dim = config.hidden_size / config.num_attention_heads;
  } else {
    fail(Status::format, "{}: \"hidden_size\" ({}) is no multiple of \"num_attention_heads\" ({})",
         keys.origin(), config.hidden_size, config.num_attention_heads);
  }
  if (config.head_dim % 2 != 0)
    fail(Status::format, "{}: \"head_dim\" is {}; expected an even number", keys.origin(), config.head_dim);
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

// A classifier's weights are a language model's but for the head, which would be missing or made of the
// embedding. A name without a task (LlamaModel) promises none.
void check_architecture(const ConfigKeys& keys, const Family& family) {
  const Json* given = keys.find("architectures");
  if (given == nullptr || (given->is_array() && given->empty())) return;
  const Json& first = given->is_array() ? given->front() : *given;
  const std::string name = first.is_string() ? first.get<std::string>() : "For";
  if (const size_t task = name.find("For"); task == std::string::npos || name.substr(task) == "ForCausalLM")
    return;
  fail(Status::unsupported, "{}: \"architectures\" begins with {}; a language model ({}) is expected",
       keys.origin(), first.dump(), family.architecture);
}

}  // namespace

ModelConfig parse_config(const Json& json, std::string_view origin) {
  if (!json.is_object()) fail(Status::format, "{}: not a JSON object", origin);
  const ConfigKeys keys(json, origin);
  const Family& family = need_family(keys);
  check_architecture(keys, family);
  if (keys.find("quantization_config") != nullptr) {
    fail(Status::unsupported,
         "{}: \"quantization_config\": quantised weights are not supported; give a float32, "
         "bfloat16 or float16 model",
         origin);
  }
  if (const std::string act = keys.text_or("hidden_act", "silu"); act != "silu") {
    fail(Status::unsupported, "{}: \"hidden_act\" is \"{}\"; only \"silu\" is supported", origin, act);
  }
  ModelConfig config;
  config.model_type = family.model_type;
  config.architecture = family.architecture;
  config.vocab_size = keys.size("vocab_size");
  config.pad_token_id = keys.row_or_none("pad_token_id", config.vocab_size);
  config.hidden_size = keys.size("hidden_size");
  config.intermediate_size = keys.size("intermediate_size");
  config.num_hidden_layers = keys.size("num_hidden_layers", 100'000);
  parse_heads(keys, family, config);
  config.max_position_embeddings = keys.size_or("max_position_embeddings", 2048, INT32_MAX);
  config.rms_norm_eps = keys.positive_or("rms_norm_eps", 1e-6);
  config.tie_word_embeddings = keys.flag_or("tie_word_embeddings", false);
  config.attention_qkv_bias = has_bias(family.qkv_bias, keys, "attention_bias");
  config.attention_out_bias = has_bias(family.out_bias, keys, "attention_bias");
  config.mlp_bias = has_bias(family.mlp_bias, keys, "mlp_bias");
  config.qk_norm = family.qk_norm;
  if (keys.find("attention_dropout") != nullptr) config.attention_dropout = keys.number("attention_dropout");
  parse_sliding(keys, family.sliding, config);
  config.rope = parse_rope(keys, config.max_position_embeddings);
  return config;
}

std::vector<int32_t> parse_end_ids(const Json& json, std::string_view origin) {
  if (!json.is_object()) fail(Status::format, "{}: not a JSON object", origin);
  return ConfigKeys(json, origin).ids("eos_token_id");
}

}  // namespace trl::model
