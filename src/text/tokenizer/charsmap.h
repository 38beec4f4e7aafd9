// SentencePiece's precompiled normalization: a trie of texts, a darts-clone double array, that leads to their
// replacements.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/field.h"
#include "text/tokenizer/normalizer.h"

namespace trl::text {

class Charsmap {
 public:
  // bytes: the trie's size in bytes, its units (all of 32 bits, little endian), then the replacements, each
  // with a NUL after it. Throws Error(format) if an offset points outside.
  Charsmap(std::string_view bytes, const std::string& where);

  // Returns the replacement of the shortest entry that this text begins with.
  std::optional<std::string_view> find(std::string_view text) const;

  // Throws Error(format) for a trie that SentencePiece's library cannot follow: it does not check the trie's
  // bounds, and accepts at most 32 texts that lead to a replacement on one path.
  void check_for_sentencepiece(const std::string& where) const;

 private:
  std::string_view replacement(uint32_t offset) const;
  void check(const std::string& where) const;

  std::vector<uint32_t> units_;
  std::string replacements_;
};

std::unique_ptr<Normalizer> precompiled_form(Charsmap map);
std::unique_ptr<Normalizer> read_precompiled(const Field& field);

}  // namespace trl::text
