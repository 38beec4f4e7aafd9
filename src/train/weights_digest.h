// Identifies a model's function as text that is the same for the same numbers: the key of its results on
// disk.
#pragma once
#include <string>
#include <vector>

#include "base/json/json.h"
#include "tensor/parameter/parameter.h"

namespace trl::train {

// Digests names and numbers; the storage type of the numbers does not matter.
std::string weights_digest(const std::vector<tensor::Parameter*>& parameters);
// Digests a config.json without its names of files and tokens.
std::string config_digest(base::Json config);

}  // namespace trl::train
