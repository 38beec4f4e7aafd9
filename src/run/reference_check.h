// What ref_model_name_or_path may name, before rows and weights are read.
#pragma once
#include <string>

#include "text/tokenizer/tokenizer.h"

namespace trl::run {

// A language model as a whole: neither an adapter nor a classifier. Throws Error(invalid_config) otherwise.
void check_reference(const std::string& path);

// That each id stands for the same token in both. A reference without a tokenizer is not compared.
void check_reference_tokens(const std::string& path, const text::Tokenizer& trained);

}  // namespace trl::run
