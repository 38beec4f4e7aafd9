// Keys of the group generate in the configuration of a run, whose sample_prompts are completed by them.
#pragma once
#include <string>
#include <vector>

#include "config/config.h"

namespace trl::config {

// Returns a warning for each one that was given and has no effect.
std::vector<std::string> idle_generation_options(const Config& config);

}  // namespace trl::config
