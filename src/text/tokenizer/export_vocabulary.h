// Converts a tokenizer to a vocabulary as GGUF holds it.
#pragma once
#include <string>

#include "base/log.h"
#include "text/tokenizer/tokenizer.h"

namespace trl::text {

// Returns a vocabulary that llama.cpp and Tokenizer::from_vocabulary read as this tokenizer. origin: names
// its files in messages. log, which may be nullptr, gets a warning for everything that GGUF cannot store.
// Throws Error(unsupported), naming the step, for a tokenizer that no GGUF file can describe.
PlainVocabulary export_vocabulary(const Tokenizer& tokenizer, const std::string& origin, base::LogSink* log);

}  // namespace trl::text
