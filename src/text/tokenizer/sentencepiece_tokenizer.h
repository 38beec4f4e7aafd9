// The tokenizer of a directory that has a tokenizer.model and no tokenizer.json.
#pragma once
#include <memory>
#include <string>

#include "text/tokenizer/settings.h"
#include "text/tokenizer/tokenizer.h"

namespace trl::text {

inline constexpr const char* kSentencePieceFile = "tokenizer.model";

// files: includes tokenizer.model; origin: the directory. Text is cut as SentencePiece cuts it, except that
// tokens which the other files name are recognised in it, and the model's control pieces if a
// tokenizer_config.json exists; the text between them is encoded piece by piece.
// BOS precedes a text if add_bos_token is true and tokenizer_config.json names one, EOS follows it if
// add_eos_token is true and tokenizer_config.json names one.
std::unique_ptr<Tokenizer> sentencepiece_tokenizer(Files files, const std::string& origin);

}  // namespace trl::text
