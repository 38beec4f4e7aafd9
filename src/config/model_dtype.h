// The type of the weights: the key dtype, or the entry of that name in model_init_kwargs.
#pragma once
#include <string>

#include "config/config.h"

namespace trl::config {

// Returns auto, float32 or bfloat16. Throws Error(invalid_config) for another type, and if the two contradict
// each other.
std::string model_dtype(const Config& config);

}  // namespace trl::config
