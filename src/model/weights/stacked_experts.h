// Experts that files have in one tensor, as transformers holds them in memory.
#pragma once
#include <map>
#include <string>

#include "io/safetensors.h"
#include "model/config/model_config.h"

namespace trl::model {

// Splits such tensors into the matrices of each expert.
void split_experts(std::map<std::string, io::TensorView>& tensors, const Family& family);

}  // namespace trl::model
