// Unigram and WordPiece, which look for tokens in a trie.
#include "text/tokenizer/subword_model.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/text/utf8.h"

namespace trl::text {

namespace {

// The tokens of a vocabulary by their bytes. The children of a node are contiguous, so that a vocabulary of
// 250,000 tokens takes some ten megabytes and is built once, in linear time.
class Trie {
 public:
  static constexpr uint32_t kRoot = 0;

  explicit Trie(const Vocabulary& vocabulary);

  // Returns the node after a byte; kRoot, which follows no byte, if no token continues with it.
  uint32_t next(uint32_t node, char byte) const {
    const auto label = static_cast<unsigned char>(byte);
    if (node == kRoot) return roots_[label];
    const uint32_t begin = first_[node];
    const void* found = std::memchr(labels_.data() + begin, label, first_[node + 1] - begin);
    return found ? static_cast<uint32_t>(static_cast<const unsigned char*>(found) - labels_.data()) : kRoot;
  }
  int32_t id(uint32_t node) const { return ids_[node]; }  // token that ends here; -1: none

 private:
  std::array<uint32_t, 256> roots_{};  // the root's children
  std::vector<unsigned char> labels_;  // by node: the byte that leads to it
  std::vector<uint32_t> first_;        // by node: its first child; one more at the end
  std::vector<int32_t> ids_;           // by node
};

using Entry = std::pair<std::string_view, int32_t>;

std::vector<Entry> sorted(const Vocabulary& vocabulary) {
  std::vector<Entry> entries;
  entries.reserve(vocabulary.size());
  for (int32_t id = 0; id < vocabulary.end(); ++id) {
    const auto token = vocabulary.token(id);
    if (token && vocabulary.find(*token) == id) entries.emplace_back(*token, id);
  }
  std::ranges::sort(entries);
  return entries;
}

// The tokens that go through a node: they agree in their first `depth` bytes.
struct Branch {
  uint32_t begin, end, depth;
};

// Breadth first: a node's place is that of its branch in the queue.
Trie::Trie(const Vocabulary& vocabulary) {
  const std::vector<Entry> entries = sorted(vocabulary);
  std::vector<Branch> branches = {{0, static_cast<uint32_t>(entries.size()), 0}};
  labels_ = {0};
  for (size_t node = 0; node < branches.size(); ++node) {
    auto [begin, end, depth] = branches[node];
    first_.push_back(static_cast<uint32_t>(branches.size()));
    const bool whole = begin < end && entries[begin].first.size() == depth;
    ids_.push_back(whole ? entries[begin++].second : -1);
    while (begin < end) {
      const char byte = entries[begin].first[depth];
      uint32_t behind = begin + 1;
      while (behind < end && entries[behind].first[depth] == byte) ++behind;
      if (node == kRoot) roots_[static_cast<unsigned char>(byte)] = static_cast<uint32_t>(branches.size());
      branches.push_back({begin, behind, depth + 1});
      labels_.push_back(static_cast<unsigned char>(byte));
      begin = behind;
    }
  }
  first_.push_back(static_cast<uint32_t>(branches.size()));
}

constexpr double kUnknownPenalty = 10;
constexpr int32_t kNone = -1;
constexpr size_t kSearchedPerPoll = size_t{1} << 14;  // bytes between two polls

size_t character_length(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

struct UnigramSpace final : ModelSpace {
  // The best way to the text's byte i ends with the token id that begins at begin.
  struct Best {
    double score = 0;
    uint32_t begin = 0;
    int32_t id = kNone;
  };
  std::vector<Best> best;
  std::vector<uint32_t> ends;  // of the tokens on the best way, the last one first
};

// Cuts a word into the tokens with the highest sum of scores.
class Unigram final : public Model {
 public:
  Unigram(Vocabulary vocabulary, std::vector<double> scores, UnigramOptions options, std::string where);

  std::unique_ptr<ModelSpace> space() const override { return std::make_unique<UnigramSpace>(); }
  void tokenize(const Piece& word, ModelSpace& space, Tokens& out) const override;

 private:
  void search(std::string_view word, UnigramSpace& space) const;
  void append_unknown(const Piece& piece, Tokens& out) const;

  std::vector<double> scores_;
  double unknown_score_;
  UnigramOptions options_;
  std::string where_;
  Trie trie_;
  std::array<int32_t, 256> byte_tokens_{};  // ids of <0x00> ...; -1: none
};

Unigram::Unigram(Vocabulary vocabulary, std::vector<double> scores, UnigramOptions options, std::string where)
    : Model(std::move(vocabulary)),
      scores_(std::move(scores)),
      unknown_score_(*std::ranges::min_element(scores_) - kUnknownPenalty),
      options_(options),
      where_(std::move(where)),
      trie_(vocabulary_) {
  for (unsigned byte = 0; byte < 256; ++byte)
    byte_tokens_[byte] = vocabulary_.find(fmt::format("<0x{:02X}>", byte));
}

// Finds the best way; among equal sums the first one found stays: that of the longest last token.
void Unigram::search(std::string_view word, UnigramSpace& space) const {
  auto& best = space.best;
  best.assign(word.size() + 1, {});
  const auto offer = [&](size_t begin, size_t end, int32_t id, double score) {
    const bool better = best[end].id == kNone || score > best[end].score;
    if (better) best[end] = {score, static_cast<uint32_t>(begin), id};
    return better;
  };
  for (size_t at = 0; at < word.size();) {
    const size_t behind = at + character_length(word[at]);
    const double here = best[at].score;
    bool known = false;  // the single character is a token
    uint32_t node = Trie::kRoot;
    for (size_t end = at; end < word.size();) {
      node = trie_.next(node, word[end]);
      if (node == Trie::kRoot) break;
      ++end;
      const int32_t id = trie_.id(node);
      if (id < 0) continue;
      known |= end == behind;
      offer(at, end, id, here + scores_[static_cast<size_t>(id)]);
    }
    if (!known && offer(at, behind, options_.unknown.value_or(kNone), here + unknown_score_) &&
        !options_.unknown)
      fail(Status::format, "{}: '{}' is not a token, and unk_id names none for it", where_,
           word.substr(at, behind - at));
    if (behind / kSearchedPerPoll != at / kSearchedPerPoll) base::poll();
    at = behind;
  }
}

void Unigram::append_unknown(const Piece& piece, Tokens& out) const {
  if (const int32_t id = vocabulary_.find(piece.text); id >= 0) return out.add(id, piece);
  const auto token = [&](char byte) { return byte_tokens_[static_cast<unsigned char>(byte)]; };
  if (options_.byte_fallback && std::ranges::all_of(piece.text, [&](char byte) { return token(byte) >= 0; }))
    for (const char byte : piece.text) out.add(token(byte), piece);
  else
    out.add(*options_.unknown, piece);
}

// Joins adjacent unknown characters into one token.
void Unigram::tokenize(const Piece& word, ModelSpace& room, Tokens& out) const {
  auto& space = static_cast<UnigramSpace&>(room);
  search(word.text, space);
  space.ends.clear();
  for (size_t end = word.text.size(); end > 0; end = space.best[end].begin)
    space.ends.push_back(static_cast<uint32_t>(end));
  size_t begin = 0;
  size_t unknown = 0;  // start of a run of unknown characters; begin: none
  for (auto end = space.ends.rbegin(); end != space.ends.rend(); ++end) {
    const int32_t id = space.best[*end].id;
    if (id != options_.unknown) {
      if (unknown < begin) append_unknown(word.part(unknown, begin), out);
      out.add(id, word.part(begin, *end));
      unknown = *end;
    }
    begin = *end;
  }
  if (unknown < begin) append_unknown(word.part(unknown, begin), out);
}

// Takes the longest token each time, from the left; tokens after the first carry a prefix in the vocabulary.
// A word that cannot be covered is the unknown token as a whole.
class WordPiece final : public Model {
 public:
  WordPiece(Vocabulary vocabulary, WordPieceOptions options, std::string where);

  void tokenize(const Piece& word, ModelSpace& space, Tokens& out) const override;

 private:
  bool cover(const Piece& word, Tokens& out) const;

  WordPieceOptions options_;
  std::string where_;
  Trie trie_;
  uint32_t behind_ = 0;   // the node after the prefix
  bool goes_on_ = false;  // tokens with the prefix exist
  int32_t unknown_ = -1;
};

WordPiece::WordPiece(Vocabulary vocabulary, WordPieceOptions options, std::string where)
    : Model(std::move(vocabulary)),
      options_(std::move(options)),
      where_(std::move(where)),
      trie_(vocabulary_),
      unknown_(vocabulary_.find(options_.unknown)) {
  goes_on_ = true;
  for (const char byte : options_.prefix) {
    behind_ = trie_.next(behind_, byte);
    goes_on_ = behind_ != Trie::kRoot;
    if (!goes_on_) break;
  }
}

// Returns false if some part is not a token; earlier output in out stays.
bool WordPiece::cover(const Piece& word, Tokens& out) const {
  const std::string_view text = word.text;
  for (size_t begin = 0; begin < text.size();) {
    if (begin > 0 && !goes_on_) return false;
    uint32_t node = begin > 0 ? behind_ : Trie::kRoot;
    int32_t id = -1;
    size_t end = begin;
    for (size_t at = begin; at < text.size();) {
      node = trie_.next(node, text[at++]);
      if (node == Trie::kRoot) break;
      if (trie_.id(node) < 0) continue;
      id = trie_.id(node);
      end = at;
    }
    if (id < 0) return false;
    out.add(id, word.part(begin, end));
    begin = end;
  }
  return true;
}

void WordPiece::tokenize(const Piece& word, ModelSpace&, Tokens& out) const {
  const size_t before = out.ids.size();
  const bool fits = word.text.size() <= options_.most_characters ||
                    base::count_code_points(word.text) <= options_.most_characters;
  if (fits && cover(word, out)) return;
  if (unknown_ < 0)
    fail(Status::format, "{}: no tokens form the word '{}', and unk_token '{}' is not in the vocabulary",
         where_, base::one_line(word.text.substr(0, 200)), options_.unknown);
  out.ids.resize(before);
  if (out.tracked) out.spans.resize(before);
  out.add(unknown_, word);
}

}  // namespace

std::unique_ptr<Model> make_unigram(Vocabulary vocabulary, std::vector<double> scores, UnigramOptions options,
                                    std::string where) {
  return std::make_unique<Unigram>(std::move(vocabulary), std::move(scores), options, std::move(where));
}

std::unique_ptr<Model> make_word_piece(Vocabulary vocabulary, WordPieceOptions options, std::string where) {
  return std::make_unique<WordPiece>(std::move(vocabulary), std::move(options), std::move(where));
}

}  // namespace trl::text
