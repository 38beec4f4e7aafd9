// The tokenizer of a directory that has a tokenizer.model and no tokenizer.json.
#pragma once
#include <memory>
#include <string>

#include "text/tokenizer/settings.h"
#include "text/tokenizer/tokenizer.h"

namespace trl::text {

inline constexpr const char* kSentencePieceFile = "tokenizer.model";

// files: tokenizer.model is among them; origin: the directory. Text is cut as SentencePiece cuts it, but that
// tokens which the other files name are recognised in it, and the model's control pieces where there is a
// tokenizer_config.json; what stands between them is encoded piece by piece.
// BOS stands before a text where add_bos_token is true and tokenizer_config.json names one, EOS after it
// where add_eos_token is.
std::unique_ptr<Tokenizer> sentencepiece_tokenizer(Files files, const std::string& origin);

}  // namespace trl::text
