// WordPiece: takes the longest token each time, from the left; tokens after the first carry a prefix in the
// vocabulary. A word that cannot be covered is the unknown token as a whole.
#pragma once
#include <cstdint>
#include <string>

#include "text/tokenizer/subword_model.h"
#include "text/tokenizer/trie.h"

namespace trl::text {

struct WordPieceOptions {
  std::string unknown;           // a word that needs it is an error if the vocabulary lacks it
  std::string prefix;            // "##"
  size_t most_characters = 100;  // a longer word is unknown
};

class WordPiece final : public Model {
 public:
  // where: names the model in messages
  WordPiece(Vocabulary vocabulary, WordPieceOptions options, std::string where);

  const Vocabulary& vocabulary() const override { return vocabulary_; }
  std::unique_ptr<ModelSpace> space() const override { return std::make_unique<ModelSpace>(); }
  void tokenize(const Piece& word, ModelSpace& space, Tokens& out) const override;

 private:
  bool cover(const Piece& word, Tokens& out) const;

  Vocabulary vocabulary_;
  WordPieceOptions options_;
  std::string where_;
  Trie trie_;
  uint32_t behind_ = 0;   // the node after the prefix
  bool goes_on_ = false;  // tokens with the prefix exist
  int32_t unknown_ = -1;
};

}  // namespace trl::text
