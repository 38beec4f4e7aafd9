// The steps of one tokenizer.json. Immutable after it is made; every call has its own buffers.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/added_tokens.h"
#include "text/tokenizer/decoder.h"
#include "text/tokenizer/json_reader.h"
#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/post_processor.h"
#include "text/tokenizer/pre_tokenizer.h"
#include "text/tokenizer/settings.h"
#include "text/tokenizer/subword_model.h"

namespace trl::text {

class Pipeline {
 public:
  // origin: tokenizer.json's path, for messages
  Pipeline(TokenizerJson json, const Settings& settings, const std::string& origin);

  Tokens encode(std::string_view text, bool add_special_tokens, bool tracked) const;
  std::string decode(std::span<const int32_t> ids, bool skip_special_tokens, DecodeMode mode) const;
  int32_t token_to_id(std::string_view token) const;  // -1: none
  std::optional<std::string> id_to_token(int32_t id) const;
  int32_t end() const;  // all ids are below
  const AddedTokens& added() const { return added_; }
  // Returns whether the files next to tokenizer.json name tokens that it lacks: their ids follow from the
  // order of names.
  bool names_new_tokens() const { return end() > file_end_; }
  const std::optional<std::string>& padding_token() const { return padding_token_; }

 private:
  void read_added(const Field& root);
  void add_named(const Settings& settings);

  Normalizers normalizers_;
  PreTokenizers pre_tokenizers_;
  std::unique_ptr<Model> model_;
  AddedTokens added_;
  PostProcessor post_processor_;
  Decoders decoders_;
  int32_t file_end_ = 0;                      // all ids of tokenizer.json are below
  std::optional<std::string> padding_token_;  // padding.pad_token of tokenizer.json
};

}  // namespace trl::text
