// Writes a tokenizer into a GGUF file.
#pragma once
#include <string>

#include "base/json.h"
#include "engine/engine.h"
#include "io/write_gguf.h"
#include "text/tokenizer/tokenizer.h"

namespace trl::capi {

class EncodedVocabulary {
 public:
  // rows: of the model's embedding; origin: of the tokenizer's files, for messages. Throws Error(unsupported)
  // for a tokenizer that no GGUF file can describe.
  EncodedVocabulary(const text::Tokenizer& tokenizer, int64_t rows, const std::string& origin);
  engine::GgufVocabulary view() const { return {pairs_.count(), pairs_.bytes(), eos_}; }

 private:
  io::GgufPairs pairs_;
  int32_t eos_;
};

// vocab_size of config.json.
int64_t embedding_rows(const base::Json& config, const std::string& origin);

}  // namespace trl::capi
