// Unigram: cuts a word into the tokens with the highest sum of scores.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "text/tokenizer/subword_model.h"
#include "text/tokenizer/trie.h"

namespace trl::text {

struct UnigramOptions {
  // The token for characters that are not in the vocabulary; without it they are an error.
  std::optional<int32_t> unknown;
  bool byte_fallback = false;  // unknown text becomes tokens <0x00> ... <0xFF>
};

class Unigram final : public Model {
 public:
  // scores: by id. where: names the model in messages.
  Unigram(Vocabulary vocabulary, std::vector<double> scores, UnigramOptions options, std::string where);

  const Vocabulary& vocabulary() const override { return vocabulary_; }
  std::unique_ptr<ModelSpace> space() const override;
  void tokenize(const Piece& word, ModelSpace& space, Tokens& out) const override;

 private:
  struct Space;
  void search(std::string_view word, Space& space) const;
  void append(const Piece& piece, int32_t id, Tokens& out) const;
  void append_unknown(const Piece& piece, Tokens& out) const;

  Vocabulary vocabulary_;
  std::vector<double> scores_;
  double unknown_score_;
  UnigramOptions options_;
  std::string where_;
  Trie trie_;
  std::array<int32_t, 256> byte_tokens_{};  // ids of <0x00> ...; -1: none
};

}  // namespace trl::text
