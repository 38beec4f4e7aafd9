// Reads sizes: of the vocabulary, the stream, the layers and their heads.
#include "base/error.h"
#include "model/config/family_keys.h"
#include "model/config/parts.h"

namespace trl::model {

namespace {

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

}  // namespace

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
  const base::Json* const longer = keys.find("model_max_length");
  if (longer != nullptr && longer->is_number_integer()) config.model_max_length = longer->get<int64_t>();
}

}  // namespace trl::model
