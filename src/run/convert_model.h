// Converts a model, or an adapter, to other files; and a tokenizer to the metadata of a GGUF file.
#pragma once
#include <string>

#include "base/json/json.h"
#include "config/config.h"
#include "engine/model.h"
#include "io/gguf.h"
#include "run/environment.h"
#include "text/tokenizer/tokenizer.h"

namespace trl::run {

class EncodedVocabulary {
 public:
  // rows: of the model's embedding; origin: of the tokenizer's files, for messages. Throws Error(unsupported)
  // for a tokenizer that no GGUF file can describe.
  EncodedVocabulary(const text::Tokenizer& tokenizer, int64_t rows, const std::string& origin,
                    base::LogSink& log);
  engine::GgufVocabulary view() const { return {pairs_.count(), pairs_.bytes(), eos_}; }

 private:
  io::GgufPairs pairs_;
  int32_t eos_;
};

// Returns vocab_size of config.json.
int64_t embedding_rows(const base::Json& config, const std::string& origin);

// path: a model, or the directory of an adapter. target: the GGUF file or directory to make.
void convert_model(Environment& environment, const std::string& path, const std::string& target,
                   const config::Config& options);

}  // namespace trl::run
