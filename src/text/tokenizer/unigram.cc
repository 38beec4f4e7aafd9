#include "text/tokenizer/unigram.h"

#include <algorithm>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/text/utf8.h"

namespace trl::text {

namespace {
constexpr double kUnknownPenalty = 10;
constexpr int32_t kNone = -1;
constexpr size_t kSearchedPerPoll = size_t{1} << 14;  // bytes between two polls

size_t character_length(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}
}  // namespace

struct Unigram::Space final : ModelSpace {
  // The best way to the text's byte i ends with the token id that begins at begin.
  struct Best {
    double score = 0;
    uint32_t begin = 0;
    int32_t id = kNone;
  };
  std::vector<Best> best;
  std::vector<uint32_t> ends;  // of the tokens on the best way, the last one first
};

Unigram::Unigram(Vocabulary vocabulary, std::vector<double> scores, UnigramOptions options, std::string where)
    : vocabulary_(std::move(vocabulary)),
      scores_(std::move(scores)),
      unknown_score_(*std::min_element(scores_.begin(), scores_.end()) - kUnknownPenalty),
      options_(options),
      where_(std::move(where)),
      trie_(vocabulary_) {
  for (unsigned byte = 0; byte < 256; ++byte)
    byte_tokens_[byte] = vocabulary_.find(fmt::format("<0x{:02X}>", byte));
}

std::unique_ptr<ModelSpace> Unigram::space() const { return std::make_unique<Space>(); }

// Finds the best way; among equal sums the first one found stays: that of the longest last token.
void Unigram::search(std::string_view word, Space& space) const {
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

void Unigram::append(const Piece& piece, int32_t id, Tokens& out) const {
  out.ids.push_back(id);
  if (out.tracked) out.spans.push_back({piece.spans[0].begin, piece.spans[piece.text.size() - 1].end});
}

void Unigram::append_unknown(const Piece& piece, Tokens& out) const {
  if (const int32_t id = vocabulary_.find(piece.text); id >= 0) return append(piece, id, out);
  const auto token = [&](char byte) { return byte_tokens_[static_cast<unsigned char>(byte)]; };
  if (options_.byte_fallback &&
      std::all_of(piece.text.begin(), piece.text.end(), [&](char byte) { return token(byte) >= 0; })) {
    for (const char byte : piece.text) append(piece, token(byte), out);
  } else {
    append(piece, *options_.unknown, out);
  }
}

// Joins adjacent unknown characters into one token.
void Unigram::tokenize(const Piece& word, ModelSpace& room, Tokens& out) const {
  auto& space = static_cast<Space&>(room);
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
      append(word.part(begin, *end), id, out);
      unknown = *end;
    }
    begin = *end;
  }
  if (unknown < begin) append_unknown(word.part(unknown, begin), out);
}

}  // namespace trl::text
