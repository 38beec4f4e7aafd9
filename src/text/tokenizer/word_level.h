// WordLevel: a word is a token, or the unknown token.
#pragma once
#include <string>

#include "text/tokenizer/subword_model.h"

namespace trl::text {

class WordLevel final : public Model {
 public:
  // unknown: the unknown token. A word that needs it is an error if the vocabulary lacks it. where: names the
  // model in messages.
  WordLevel(Vocabulary vocabulary, std::string unknown, std::string where);

  const Vocabulary& vocabulary() const override { return vocabulary_; }
  std::unique_ptr<ModelSpace> space() const override { return std::make_unique<ModelSpace>(); }
  void tokenize(const Piece& word, ModelSpace& space, Tokens& out) const override;

 private:
  Vocabulary vocabulary_;
  std::string unknown_;
  std::string where_;
};

}  // namespace trl::text
