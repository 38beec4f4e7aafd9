// add_prefix_space of tokenizer_config.json, where transformers takes it from there.
#pragma once
#include <string>

#include "text/tokenizer/settings.h"

namespace trl::text {

// Writes it into the tokenizer's steps (tokenizer.json). model_type: of config.json beside it, may be empty;
// where: for messages. Throws Error(unsupported) where transformers would put other steps in their place.
void apply_prefix_space(base::Json& tokenizer, const Settings& settings, const std::string& model_type,
                        const std::string& where);

}  // namespace trl::text
