// Opens the tokenizer of a model: from its directory, or from the metadata of a GGUF file.
#pragma once
#include <memory>
#include <string>

#include "base/log.h"
#include "config/data_arguments.h"
#include "text/tokenizer/tokenizer.h"

namespace trl::data {

// log: gets a warning for values that a GGUF file leaves to be guessed; may be null.
std::unique_ptr<text::Tokenizer> open_tokenizer(const std::string& model_path, base::LogSink* log = nullptr);

// Returns the tokenizer that SFT trains with and saves: with eos_token, chat_template or chat_template_path
// applied (template_model.h if that is a model), and the pad token pad_token, else its own, else its EOS.
// Throws Error(invalid_config) if one of them is not available.
std::unique_ptr<text::Tokenizer> training_tokenizer(const text::Tokenizer& tokenizer,
                                                    const config::DataArguments& arguments);

}  // namespace trl::data
