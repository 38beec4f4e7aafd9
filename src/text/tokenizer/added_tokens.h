// Tokens that are recognised in the text before the model sees it: special ones (BOS, EOS, roles) and others.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/json/json.h"
#include "text/tokenizer/byte_ranges.h"
#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/piece.h"
#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/vocabulary.h"

namespace trl::text {

// The longest added token; a longer one is an error, because searching for it takes a step for each of its
// bytes wherever its first byte occurs.
inline constexpr size_t kMaxAddedToken = 1024;  // bytes
AddedToken read_added_token(const Field& field);

// Finds the longest of several strings at the leftmost position.
class StringMatcher {
 public:
  void add(std::string_view text, int32_t value);
  struct Match {
    size_t begin;
    size_t end;
    int32_t value;
  };
  bool find(std::string_view text, size_t from, Match& match) const;
  size_t nodes() const { return values_.size(); }

 private:
  PairTable edges_;                  // node, byte -> next node
  std::vector<int32_t> values_{-1};  // by node; -1: none ends here
  bool first_bytes_[256] = {};
};

class AddedTokens {
 public:
  // Adds a token and returns its id: the next free one if the vocabulary lacks the token.
  int32_t add(const AddedToken& token, const Vocabulary& vocabulary);
  void build(const Normalizers& normalizers, const std::string& where);  // call after the last add()

  const AddedToken* find(std::string_view content) const;
  const AddedToken* find(int32_t id) const;
  int32_t id(std::string_view content) const;  // -1: none
  int32_t end() const { return end_; }         // all ids are below
  std::vector<std::string_view> contents() const;
  std::map<int32_t, AddedToken> all() const;
  // The token as decoders get it. text: its normalized form if that form is looked for. skipped:
  // skip_special_tokens drops it, because the text is a special token's content.
  struct Decoded {
    std::string_view text;
    bool skipped;
  };
  std::optional<Decoded> decoded(int32_t id) const;

  // Calls plain for text between tokens and token for each one found, in order. given: parts of the text that
  // was given to encode(), in which special tokens are not found.
  using TokenSink = FunctionRef<void(const Piece&, int32_t)>;
  void split(const Piece& piece, bool normalized, const ByteRanges& given, PieceSink plain,
             TokenSink token) const;

 private:
  struct Entry {
    AddedToken token;
    std::string normalized;
    bool skipped = false;
  };
  std::unordered_map<int32_t, Entry> tokens_;
  std::unordered_map<std::string, int32_t> ids_;
  int32_t end_ = 0;
  StringMatcher plain_;
  StringMatcher normalized_;
};

// Writes the added tokens into the text of a tokenizer.json, whose vocabulary is not read again.
// Returns a token as "added_tokens" lists it.
base::Json json_of(int64_t id, const AddedToken& token);
// json: a good tokenizer.json, whose "added_tokens" become these, by id.
std::string with_added_tokens(std::string_view json, const std::map<int32_t, AddedToken>& tokens);

}  // namespace trl::text
