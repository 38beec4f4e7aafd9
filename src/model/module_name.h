// Names a module as transformers does.
#pragma once
#include <string>

#include "model/families.h"

namespace trl::model {

// "model.layers.0.mlp.up_proj.weight" -> "model.layers.0.mlp.up_proj". In a multimodal class, the language
// model is a submodule.
inline std::string module_name(const std::string& parameter, const Family& family) {
  const std::string name =
      parameter.ends_with(".weight") ? parameter.substr(0, parameter.rfind('.')) : parameter;
  if (family.text == nullptr || !name.starts_with("model.")) return name;
  return "model.language_model." + name.substr(6);
}

}  // namespace trl::model
