// Adapters of transformers 4, whose models had a linear layer for each matrix of an expert and for the
// router. Transformers 5 holds the matrices of all experts in one parameter, and PEFT 0.21 turns
// configurations and files of old adapters into adapters of parameters
// (peft/utils/transformers_weight_conversion.py).
#pragma once
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "adapter/target_modules.h"
#include "config/lora_config.h"
#include "io/safetensors.h"

namespace trl::adapter {

// Converts a configuration for models of type mixtral and qwen3_moe, the types for which PEFT does so: old
// names in target_modules become target_parameters, and all-linear names experts and routers too; an
// expression becomes the list of the last parts of the names that it matches. gate_up_proj represents two
// modules and gets twice their rank and alpha. Throws Error(invalid_config) if only one of the two is named.
config::LoraConfig with_stacked_experts(config::LoraConfig config, std::span<const Module> modules,
                                        std::string_view model_type);

// Stacks a file's tensors of old experts as PEFT stacks them, under the names that PEFT would save them by,
// and gives those of routers their new names.
class StackedExperts {
 public:
  // path: for messages. tensors: gets the new ones in place of the old. Throws Error(format) if a tensor of
  // an expert is missing, or differs in shape from the others.
  StackedExperts(const std::string& path, std::map<std::string, io::TensorView>& tensors);

 private:
  std::vector<std::vector<float>> values_;  // values of the new tensors
};

}  // namespace trl::adapter
