// The steps of one tokenizer.json.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/added_tokens.h"
#include "text/tokenizer/json_reader.h"
#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/pattern.h"
#include "text/tokenizer/piece.h"
#include "text/tokenizer/settings.h"
#include "text/tokenizer/subword_model.h"

namespace trl::text {

// Pre-tokenizers: cut the text into the words that the model sees one by one.
class PreTokenizers {
 public:
  PreTokenizers() = default;
  explicit PreTokenizers(const Field& field);  // pre_tokenizer of tokenizer.json

  size_t size() const { return steps_.size(); }
  // buffers: size() of them. Empty pieces are dropped.
  void run(const Piece& piece, std::vector<Buffer>& buffers, MatchSpace& space, PieceSink word) const {
    step(0, piece, buffers, space, word);
  }

 private:
  void read(const Field& field, int depth);
  void step(size_t index, const Piece& piece, std::vector<Buffer>& buffers, MatchSpace& space,
            PieceSink word) const;

  // own: room for a text that the step writes; kept until the next call with it
  std::vector<std::function<void(const Piece&, Buffer& own, MatchSpace&, PieceSink next)>> steps_;
};

// Post-processors: put BOS, EOS ... around the ids, and trim whitespace from offsets.
class PostProcessor {
 public:
  PostProcessor() = default;
  // id_end: all ids of the vocabulary are below
  PostProcessor(const Field& field, int32_t id_end);  // post_processor of tokenizer.json
  PostProcessor(std::optional<int32_t> before, std::optional<int32_t> after);  // the ids around the text

  // token_text: the text of the token at an index of tokens; text: the text that was encoded.
  using TokenText = FunctionRef<std::string_view(size_t index)>;
  void run(Tokens& tokens, std::string_view text, bool add_special_tokens, TokenText token_text) const;

 private:
  // One step: the template's parts, with nullopt for the text; or trimming.
  struct Step {
    bool trims = false;
    bool prefix_space = false;
    std::vector<std::optional<int32_t>> parts = {};
  };
  void read(const Field& field, int32_t id_end, int depth);
  void read_template(const Field& field, int32_t id_end);
  void add(const Field& field, std::vector<std::optional<int32_t>> parts);
  static void fill(const Step& step, Tokens& tokens, bool add_special_tokens);
  static void trim(const Step& step, Tokens& tokens, std::string_view text, TokenText token_text);

  std::vector<Step> steps_;
};

// Decoders: turn the tokens' texts back into the text.
struct DecodeMode {
  bool lossy = false;      // bytes that are not UTF-8 may be replaced
  bool continues = false;  // other text precedes these tokens
};

class Decoders {
 public:
  Decoders() = default;
  explicit Decoders(const Field& field);  // decoder of tokenizer.json

  std::string run(std::vector<std::string> tokens, DecodeMode mode) const;

 private:
  // joined: the steps so far make one text of the tokens
  void read(const Field& field, bool& joined, int depth);

  std::vector<std::function<void(std::vector<std::string>& tokens, DecodeMode mode)>> steps_;
  bool present_ = false;  // without a decoder tokens are joined by spaces
};

// All steps. Immutable after it is made; every call has its own buffers.
class Pipeline {
 public:
  // origin: tokenizer.json's path, for messages
  Pipeline(TokenizerJson json, const Settings& settings, const std::string& origin);

  Tokens encode(std::string_view text, bool add_special_tokens, bool tracked, const ByteRanges& given) const;
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
