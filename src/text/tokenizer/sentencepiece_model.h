// A tokenizer.model, read by SentencePiece's own library: the private module is opened on first use.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sentencepiece/module.h"
#include "text/tokenizer/piece.h"

namespace trl::text {

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
