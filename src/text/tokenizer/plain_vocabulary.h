// The files of a Hugging Face tokenizer for a vocabulary as GGUF holds it.
#pragma once
#include <string>

#include "text/tokenizer/settings.h"
#include "text/tokenizer/tokenizer.h"

namespace trl::text {

// Throws Error(unsupported) for another model or an unknown pre-tokenizer, Error(format) for lists that do
// not fit.
Files files_of(const PlainVocabulary& vocabulary, const std::string& origin);

}  // namespace trl::text
