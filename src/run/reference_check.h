// Checks ref_model_name_or_path before rows and weights are read.
#pragma once
#include <string>

#include "text/tokenizer/tokenizer.h"

namespace trl::run {

// Accepts only a whole language model: no adapter and no classifier. Throws Error(invalid_config) otherwise.
void check_reference(const std::string& path);

// Checks that each id is the same token in both. A reference without a tokenizer is not compared.
void check_reference_tokens(const std::string& path, const text::Tokenizer& trained);

}  // namespace trl::run
