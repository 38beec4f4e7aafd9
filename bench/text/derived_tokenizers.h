// Tokenizers of other kinds with the vocabulary of a byte-level one: what they cut is English, if not well.
#pragma once
#include <string>

namespace trl::bench {

// type: Unigram (a token's score falls with its id) or WordPiece (a token with a space before it begins a
// word). Writes folder/tokenizer.json; returns folder.
std::string write_derived_tokenizer(const std::string& model, const std::string& type,
                                    const std::string& folder);

}  // namespace trl::bench
