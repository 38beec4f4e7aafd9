// Opens the tokenizer of a model: from its files, or from the metadata of a GGUF file, which it is encoded as
// too.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "base/log.h"
#include "config/dataset/data_arguments.h"
#include "io/gguf.h"
#include "io/model_source.h"
#include "text/tokenizer/tokenizer.h"

namespace trl::data {

// log: gets a warning for values that a GGUF file leaves to be guessed; may be null.
std::unique_ptr<text::Tokenizer> open_tokenizer(const io::ModelSource& model, base::LogSink* log = nullptr);

// Returns the tokenizer that SFT trains with and saves: with eos_token, chat_template or chat_template_path
// applied (with_template_of() if that is a model), and the pad token pad_token, else its own, else its EOS.
// Throws Error(invalid_config) if one of them is not available.
std::unique_ptr<text::Tokenizer> training_tokenizer(const text::Tokenizer& tokenizer,
                                                    const config::DataArguments& arguments);

// Says whether chat_template_path is given and names a model, not a file with a template.
bool names_template_model(const config::DataArguments& arguments);

// Returns a copy of `tokenizer` with the chat template, the added tokens and the EOS of that of
// model (TRL's clone_chat_template), filled up with tokens <extra_id_N> to a multiple of 64 ids, which is the
// number of rows that the embedding must have. Throws Error(invalid_config) if that tokenizer has no template
// or no EOS.
std::unique_ptr<text::Tokenizer> with_template_of(const io::ModelSource& model,
                                                  const text::Tokenizer& tokenizer);

// rows: of the model's embedding; llama.cpp needs a token for each, so tokens that the tokenizer lacks get
// names that no text produces. origin: of the tokenizer's files, for messages. Throws Error(unsupported) for
// a tokenizer that no GGUF file can describe, Error(format) for one with more tokens than rows.
io::GgufPairs gguf_vocabulary(const text::Tokenizer& tokenizer, int64_t rows, const std::string& origin,
                              base::LogSink* log);

}  // namespace trl::data
