// The configuration of a model as it is saved.
#pragma once
#include <string>

#include "base/json/json.h"
#include "model/model.h"

namespace trl::checkpoint {

const char* dtype_name(const model::Model& model);  // "bfloat16", "float32"

// Sets the type of the weights that are saved with config.json.
void set_dtype(base::Json& config, const std::string& name);

// Returns config.json as loaded, except for the parts that this save decides: the type of the weights, their
// class, and whether head and embedding are one.
base::Json saved_config(model::Model& model);
model::ModelConfig saved_model_config(model::Model& model);

}  // namespace trl::checkpoint
