// The entries of PEFT 0.21's TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING for the supported families.
#include "adapter/target_modules.h"

namespace trl::adapter {

std::vector<std::string> default_targets(std::string_view model_type) {
  if (model_type == "gpt2") return {"c_attn"};
  if (model_type == "gpt_neox") return {"query_key_value"};
  for (const std::string_view type :
       {"llama", "mistral", "mixtral", "stablelm", "gemma", "gemma2", "gemma3_text", "qwen2", "qwen3"}) {
    if (type == model_type) return {"q_proj", "v_proj"};
  }
  return {};
}

}  // namespace trl::adapter
