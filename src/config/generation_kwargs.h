// generation_kwargs: options of generation by the names of transformers and vLLM.
#pragma once
#include "config/config.h"

namespace trl::config {

// Returns the configuration with the entries of generate.generation_kwargs as options of the group generate,
// over those that it has. An entry that is null counts as not given. Throws Error(invalid_config) that names
// the key and the entry: for one that this build lacks or does not know, for a value that its option does not
// accept, and for two entries that contradict each other.
Config with_generation_kwargs(const Config& config);

}  // namespace trl::config
