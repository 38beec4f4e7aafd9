#include "checkpoint/saved_config.h"

#include "checkpoint/memory_weights.h"

namespace trl::checkpoint {

const char* dtype_name(const model::Model& model) {
  return model.dtype() == at::kBFloat16 ? "bfloat16" : "float32";
}

void set_dtype(base::Json& config, const std::string& name) {
  const char* key = config.contains("torch_dtype") && !config.contains("dtype") ? "torch_dtype" : "dtype";
  config[key] = name;
  config.erase("quantization_config");
}

base::Json saved_config(model::Model& model) {
  base::Json config = model.config_json();
  if (has_own_head(model)) {
    const char* const text = model.config().family->text;
    config["tie_word_embeddings"] = false;
    if (text != nullptr && config.contains(text)) config[text]["tie_word_embeddings"] = false;
  }
  set_dtype(config, dtype_name(model));
  config["architectures"] = base::Json::array({model.config().architecture});
  return config;
}

model::ModelConfig saved_model_config(model::Model& model) {
  model::ModelConfig config = model.config();
  config.tie_word_embeddings = config.tie_word_embeddings && !has_own_head(model);
  return config;
}

}  // namespace trl::checkpoint
