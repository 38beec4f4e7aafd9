// Makes the files of a Hugging Face tokenizer from a vocabulary as GGUF holds it.
#pragma once
#include <string>

#include "text/tokenizer/settings.h"
#include "text/tokenizer/tokenizer.h"

namespace trl::text {

// Values of PlainVocabulary::token_types, as ggml numbers them.
enum : int32_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

// Throws Error(unsupported) for another model or an unknown pre-tokenizer, Error(format) for lists that do
// not fit.
Files files_of(const PlainVocabulary& vocabulary, const std::string& origin);

}  // namespace trl::text
