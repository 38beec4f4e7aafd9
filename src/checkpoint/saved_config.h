// The configuration of a model as it is saved.
#pragma once
#include <string>

#include "base/json/json.h"
#include "model/model.h"

namespace trl::checkpoint {

const char* dtype_name(const model::Model& model);  // "bfloat16", "float32"

// The weights beside config.json are numbers of this type.
void set_dtype(base::Json& config, const std::string& name);

// config.json as loaded, except for what this save decides: the type of the weights, the class that they are
// the weights of, and whether head and embedding are one.
base::Json saved_config(model::Model& model);
model::ModelConfig saved_model_config(model::Model& model);

}  // namespace trl::checkpoint
