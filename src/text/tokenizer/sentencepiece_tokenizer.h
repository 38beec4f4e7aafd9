// The tokenizer of a directory that has a tokenizer.model and no tokenizer.json.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sentencepiece/module.h"
#include "text/tokenizer/piece.h"
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

// A tokenizer.model, read by SentencePiece's own library: the private module is opened on first use.
class SentencePieceModel {
 public:
  // path: for messages. Throws Error(unsupported) if the module is missing, Error(format) for bytes that are
  // not a model.
  SentencePieceModel(std::string_view bytes, std::string path);

  int32_t size() const { return module_->size(model_.get()); }
  sentencepiece::Kind kind(int32_t id) const { return module_->kind(model_.get(), id); }
  std::string piece(int32_t id) const;
  int32_t find(std::string_view piece) const;  // -1: none
  // Encodes valid UTF-8. Spans count bytes of text, from origin on.
  void encode(std::string_view text, uint32_t origin, Tokens& out) const;
  std::string decode(std::span<const int32_t> ids) const;  // below size()

 private:
  const sentencepiece::Module* module_;
  std::shared_ptr<void> model_;
  std::string path_;
};

}  // namespace trl::text
