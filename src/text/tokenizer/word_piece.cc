#include "text/tokenizer/word_piece.h"

#include "base/error.h"
#include "base/text/utf8.h"

namespace trl::text {

WordPiece::WordPiece(Vocabulary vocabulary, WordPieceOptions options, std::string where)
    : vocabulary_(std::move(vocabulary)),
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
    out.ids.push_back(id);
    if (out.tracked) out.spans.push_back({word.spans[begin].begin, word.spans[end - 1].end});
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
  out.ids.push_back(unknown_);
  if (!out.tracked) return;
  out.spans.resize(before);
  out.spans.push_back({word.spans[0].begin, word.spans[word.text.size() - 1].end});
}

}  // namespace trl::text
