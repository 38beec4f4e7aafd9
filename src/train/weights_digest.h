// Identifies what a model computes, as text that is the same for the same numbers: the key of what is kept of
// it on disk.
#pragma once
#include <string>
#include <vector>

#include "base/json/json.h"
#include "tensor/parameter/parameter.h"

namespace trl::train {

// Of names and numbers, whatever these are stored as.
std::string weights_digest(const std::vector<tensor::Parameter*>& parameters);
// Of a config.json, without what names files and tokens.
std::string config_digest(base::Json config);

}  // namespace trl::train
