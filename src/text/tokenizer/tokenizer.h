// A tokenizer as Hugging Face's `tokenizers` runs it: added tokens -> normalizer -> pre-tokenizer -> model ->
// post-processor, and back. Immutable after it is made: concurrent on const.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/files/named_files.h"
#include "base/log.h"
#include "text/tokenizer/byte_ranges.h"

namespace trl::text {

struct Encoding {
  std::vector<int32_t> ids;
  // The byte range of each token in the given text; {0, 0}: added.
  std::vector<std::pair<uint32_t, uint32_t>> offsets;
};

// A vocabulary as plain arrays, as GGUF holds it (io/ knows the file, text/ the meaning).
struct PlainVocabulary {
  std::string model;         // tokenizer.ggml.model: "gpt2", "llama"
  std::string pre;           // tokenizer.ggml.pre, for "gpt2"
  std::string architecture;  // general.architecture, for "llama"; may be empty
  std::vector<std::string> tokens;
  std::vector<std::string> merges;  // "a b"
  // For "llama", one score a token; they order its merges if none are given.
  std::vector<float> scores;
  std::vector<int32_t> token_types;  // 1 normal, 2 unknown, 3 control, 4 user defined, 6 byte; may be empty
  int32_t bos = -1, eos = -1, unk = -1, pad = -1;
  std::optional<bool> add_bos;  // tokenizer.ggml.add_bos_token; nullopt: pre decides
  bool add_eos = false;
  // For "llama": the text begins with a mark of a space.
  bool add_space_prefix = true;
  std::map<std::string, std::string> chat_templates;  // by name
};

// A token that is recognised in a text before the model sees it.
struct AddedToken {
  std::string content;
  bool single_word = false;  // only if no word character is next to it
  bool lstrip = false;       // includes the whitespace before it
  bool rstrip = false;
  bool normalized = true;  // searched for in the normalized text
  bool special = false;    // skip_special_tokens drops it
};

class Tokenizer {
 public:
  // Reads tokenizer.json, or tokenizer.model if it is missing, tokenizer_config.json,
  // special_tokens_map.json, added_tokens.json, chat_template.jinja, additional_chat_templates/*.jinja;
  // config.json for the class, which may replace tokenizer.json's steps (class_row.cc): log gets a warning if
  // that contradicts the file.
  static std::unique_ptr<Tokenizer> from_files(const base::NamedFiles& model, base::LogSink* log = nullptr);
  static std::unique_ptr<Tokenizer> from_vocabulary(const PlainVocabulary& vocabulary,
                                                    std::string_view origin);
  virtual ~Tokenizer() = default;

  // add_special_tokens: adds the post-processor's tokens (BOS ...). Special tokens written in the text are
  // recognised, except for those that begin or end in a given part: these are text like any other.
  virtual std::vector<int32_t> encode(std::string_view text, bool add_special_tokens,
                                      const ByteRanges& given = {}) const = 0;
  virtual Encoding encode_with_offsets(std::string_view text, bool add_special_tokens,
                                       const ByteRanges& given = {}) const = 0;
  // split_special_tokens: whoever encodes text for training, scores or generation gives its given parts, all
  // that neither the chat template nor the library wrote.
  virtual bool splits_special_tokens() const = 0;
  // Returns the given part of a text whose first `size` bytes are a user's.
  ByteRanges given_of(size_t size) const {
    return splits_special_tokens() ? ByteRanges{{0, size}} : ByteRanges();
  }
  // Throws Error(invalid_argument) for an id that is negative or not below vocab_size(); gaps below it give
  // no text. decode: invalid UTF-8 becomes U+FFFD.
  virtual std::string decode(std::span<const int32_t> ids, bool skip_special_tokens) const = 0;
  // Returns raw bytes, for DecodeStream. continues: other text precedes these tokens, so that changes at the
  // beginning of a text (a space that is stripped) do not happen here.
  virtual std::string decode_bytes(std::span<const int32_t> ids, bool skip_special_tokens,
                                   bool continues) const = 0;
  virtual std::optional<int32_t> token_to_id(std::string_view token) const = 0;
  virtual std::optional<std::string> id_to_token(int32_t id) const = 0;
  virtual int64_t vocab_size() const = 0;  // ids are below this

  // The class of transformers whose steps the tokenizer has; empty: tokenizer.json's own.
  virtual std::string_view built_as() const = 0;

  struct Special {
    std::optional<std::string> bos, eos, pad, unk;  // token text
    std::map<std::string, std::string> others;      // by name: cls_token, image_token ...
  };
  virtual const Special& special() const = 0;
  // Returns tokens by name, as transformers gives them to a chat template: bos_token, image_token ...
  std::map<std::string, std::string> special_tokens_map() const;
  std::optional<int32_t> special_id(const std::optional<std::string>& token) const {
    return token ? token_to_id(*token) : std::nullopt;
  }
  // Templates by name; a single one is "default" (text::ChatTemplates chooses one for a call).
  virtual const std::map<std::string, std::string>& chat_templates() const = 0;

  virtual std::map<int32_t, AddedToken> added_tokens() const = 0;  // by id
  // Returns a copy that knows these too; one that the vocabulary lacks gets the next free id.
  virtual std::unique_ptr<Tokenizer> with_added(std::span<const AddedToken> tokens) const = 0;
  // Returns a copy with another EOS, pad token or template, which replaces all (eos_token, pad_token,
  // chat_template options), or that splits special tokens; no file of it says the last. Throws
  // Error(invalid_config) when a token is not in the vocabulary.
  struct Overrides {
    std::optional<std::string> eos = {}, pad = {}, chat_template = {};
    bool split_special_tokens = false;  // true: from now on
  };
  virtual std::unique_ptr<Tokenizer> with(const Overrides& overrides) const = 0;

  // Returns the files of a saved model directory: tokenizer.json, tokenizer_config.json, chat_template.jinja
  // ... {name, bytes}; a name may include a folder.
  virtual std::vector<std::pair<std::string, std::string>> files() const = 0;
};

// Decodes tokens that arrive one by one into whole characters. All steps together give the text that decode()
// gives for all ids at once, except that byte tokens which form no character are replaced as bytes, not as a
// run, and that a BPEDecoder's last word keeps the space after it.
class DecodeStream {
 public:
  DecodeStream(const Tokenizer& tokenizer, bool skip_special_tokens)
      : tokenizer_(&tokenizer), skip_(skip_special_tokens) {}
  std::string step(int32_t id);
  std::string finish();  // call when an incomplete character will not be completed any more

 private:
  const Tokenizer* tokenizer_;
  bool skip_;
  bool begun_ = false;
  std::vector<int32_t> before_;  // ids that gave no text, while the text has not begun
  std::string pending_;          // bytes that are not a whole character yet
};

}  // namespace trl::text
