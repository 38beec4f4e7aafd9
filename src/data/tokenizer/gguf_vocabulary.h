// Encodes a tokenizer as metadata of a GGUF file (tokenizer.ggml.*, tokenizer.chat_template).
#pragma once
#include <cstdint>
#include <string>

#include "base/log.h"
#include "io/write_gguf.h"
#include "text/tokenizer/tokenizer.h"

namespace trl::data {

// rows: of the model's embedding; llama.cpp needs a token for each, so tokens that the tokenizer lacks get
// names that no text produces. origin: of the tokenizer's files, for messages. Throws Error(unsupported) for
// a tokenizer that no GGUF file can describe, Error(format) for one with more tokens than rows.
io::GgufPairs gguf_vocabulary(const text::Tokenizer& tokenizer, int64_t rows, const std::string& origin,
                              base::LogSink* log);

}  // namespace trl::data
