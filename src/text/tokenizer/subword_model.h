// The model of a tokenizer.json: a word in, ids out.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "text/tokenizer/json_reader.h"
#include "text/tokenizer/piece.h"
#include "text/tokenizer/vocabulary.h"

namespace trl::text {

// Buffers that a model needs for one word, reused for all words of a call.
struct ModelSpace {
  virtual ~ModelSpace() = default;
};

class Model {
 public:
  explicit Model(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}
  virtual ~Model() = default;
  const Vocabulary& vocabulary() const { return vocabulary_; }
  virtual std::unique_ptr<ModelSpace> space() const { return std::make_unique<ModelSpace>(); }
  // word is not empty; space is one of this model's
  virtual void tokenize(const Piece& word, ModelSpace& space, Tokens& out) const = 0;

 protected:
  const Vocabulary vocabulary_;
};

// root: tokenizer.json, without the parts that json holds separately, which are moved into the model.
std::unique_ptr<Model> read_model(const Field& root, TokenizerJson& json);

struct BpeOptions {
  std::string unknown;         // token for a character that is not in the vocabulary; empty: it is dropped
  bool fuse_unknown = false;   // a run of unknown characters is one token
  bool byte_fallback = false;  // unknown characters become tokens <0x00> ... <0xFF>
  bool ignore_merges = false;  // a word that is a token is that token
  std::string prefix;          // prefix of tokens that do not begin a word
  std::string suffix;          // suffix of tokens that end a word
};

struct BpeSpace final : ModelSpace {
  struct Symbol {
    int32_t id;
    uint32_t length;  // bytes; 0: merged into an earlier one
    int32_t previous;
    int32_t next;
  };
  std::vector<Symbol> symbols;
  std::vector<uint64_t> queue;                // rank << 32 | index of the pair's first symbol
  std::vector<std::vector<uint32_t>> places;  // by rank: the first symbols of its pairs, of a long word
  std::vector<uint32_t> waiting;              // a heap of the ranks that have places
};

// Byte-pair encoding: a word starts as its characters; the pair with the lowest rank is merged, leftmost
// first, until no pair is left. Short words keep their pairs in a heap; long ones are merged rank by rank, in
// linear time.
class Bpe final : public Model {
 public:
  // where: names the merges in messages
  Bpe(Vocabulary vocabulary, const Merges& merges, BpeOptions options, const std::string& where);

  std::unique_ptr<ModelSpace> space() const override { return std::make_unique<BpeSpace>(); }
  void tokenize(const Piece& word, ModelSpace& space, Tokens& out) const override;

 private:
  enum : uint8_t { kNotTried, kWhole, kSplit };

  void read_merges(const Merges& merges, const std::string& where);
  int32_t character_id(std::string_view word, size_t begin, size_t end, char32_t c) const;
  void append(int32_t id, size_t length, BpeSpace& space) const;
  bool append_bytes(std::string_view character, BpeSpace& space) const;
  void start(std::string_view word, BpeSpace& space) const;
  void push(size_t left, size_t right, uint32_t most, BpeSpace& space) const;
  void place(size_t at, uint32_t rank, BpeSpace& space) const;
  int32_t join(size_t at, int32_t merged, BpeSpace& space) const;
  void merge_queue(uint32_t most, BpeSpace& space) const;
  void merge(BpeSpace& space) const;
  size_t merge_at_once(uint32_t rank, std::vector<uint32_t>& places, BpeSpace& space) const;
  void merge_one_by_one(uint32_t rank, const std::vector<uint32_t>& places, BpeSpace& space) const;
  void merge_long(BpeSpace& space) const;

  struct Merge {
    int32_t left, right, merged;
    bool leads_back;  // a merge of this rank or a lower one has the merged token
  };

  PairTable merges_;          // pair of ids -> rank, merged id
  std::vector<Merge> ranks_;  // by rank
  BpeOptions options_;
  int32_t unknown_ = -1;
  // The ids of the first characters of Unicode, which include the byte alphabet.
  std::array<int32_t, 0x180> characters_{};
  std::array<int32_t, 256> byte_tokens_{};  // ids of <0x00> ...
  // Whether a token's text is encoded as that one token, by id. Computed at its first use; any thread may
  // write it, and all write the same.
  std::unique_ptr<std::atomic<uint8_t>[]> whole_;
};

// Unigram and WordPiece look for tokens in a trie.
struct UnigramOptions {
  // The token for characters that are not in the vocabulary; without it they are an error.
  std::optional<int32_t> unknown;
  bool byte_fallback = false;  // unknown text becomes tokens <0x00> ... <0xFF>
};
// scores: by id. where: names the model in messages.
std::unique_ptr<Model> make_unigram(Vocabulary vocabulary, std::vector<double> scores, UnigramOptions options,
                                    std::string where);

struct WordPieceOptions {
  std::string unknown;           // a word that needs it is an error if the vocabulary lacks it
  std::string prefix;            // "##"
  size_t most_characters = 100;  // a longer word is unknown
};
std::unique_ptr<Model> make_word_piece(Vocabulary vocabulary, WordPieceOptions options, std::string where);

}  // namespace trl::text
