// Byte-pair encoding: a word starts as its characters; the pair with the lowest rank is merged, leftmost
// first, until no pair is left. Short words keep their pairs in a heap; long ones are merged rank by rank, in
// linear time (bpe_long_word.cc).
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/tokenizer/pair_table.h"
#include "text/tokenizer/subword_model.h"

namespace trl::text {

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

class Bpe final : public Model {
 public:
  // where: names the merges in messages
  Bpe(Vocabulary vocabulary, const Merges& merges, BpeOptions options, const std::string& where);

  const Vocabulary& vocabulary() const override { return vocabulary_; }
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

  Vocabulary vocabulary_;
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

}  // namespace trl::text
