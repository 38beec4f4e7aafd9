// chat_template_path as a model: takes over the chat template and tokens of another model's tokenizer (TRL's
// clone_chat_template).
#pragma once
#include <memory>
#include <string>

#include "config/data_arguments.h"
#include "text/tokenizer/tokenizer.h"

namespace trl::data {

// Says whether chat_template_path is given and names a model, not a file with a template.
bool names_template_model(const config::DataArguments& arguments);

// Returns a copy of `tokenizer` with the chat template, the added tokens and the EOS of the one at
// model_path, filled up with tokens <extra_id_N> to a multiple of 64 ids, which is the number of rows that
// the embedding must have. Throws Error(invalid_config) if that tokenizer has no template or no EOS.
std::unique_ptr<text::Tokenizer> with_template_of(const std::string& model_path,
                                                  const text::Tokenizer& tokenizer);

}  // namespace trl::data
