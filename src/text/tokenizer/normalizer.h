// Normalizers: change the text before it is cut into words.
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/text/utf8.h"
#include "text/tokenizer/json_reader.h"
#include "text/tokenizer/pattern.h"
#include "text/tokenizer/piece.h"

namespace trl::text {

// Writes a changed copy of a piece and keeps the origin of each byte by the rules of `tokenizers`: a
// character that replaces another takes its origin, an inserted one has the origin of the character before
// it.
class Rewriter {
 public:
  Rewriter(const Piece& from, Buffer& to) : from_(from), to_(to) { to_.clear(); }

  // change 0: c replaces the next character; -n: it replaces n more too; 1: c is inserted.
  void put(char32_t c, int64_t change) {
    base::append_utf8(to_.text, c);
    if (from_.spans) to_.spans.resize(to_.text.size(), change > 0 ? inserted() : at(at_));
    lead(change > 0 ? before() : at_);
    if (change <= 0) skip(1 - change);
  }
  void insert(std::string_view text) {
    to_.text.append(text);
    refuse_growth(from_.text.size(), to_.text.size(), "normalizer");
    if (from_.spans) to_.spans.resize(to_.text.size(), inserted());
    lead(before());
  }
  void skip(int64_t characters) {
    for (; characters > 0 && at_ < from_.text.size(); --characters) base::next_code_point(from_.text, at_);
  }
  void copy(size_t end) {
    if (at_ < from_.leading) to_.leading = to_.text.size() + std::min(end, from_.leading) - at_;
    to_.text.append(from_.text.substr(at_, end - at_));
    if (from_.spans) to_.spans.insert(to_.spans.end(), from_.spans + at_, from_.spans + end);
    at_ = end;
  }
  void skip_to(size_t end) { at_ = end; }

 private:
  Span at(size_t index) const { return from_.spans[std::min(index, from_.text.size() - 1)]; }
  size_t before() const { return at_ > 0 ? at_ - 1 : 0; }
  void lead(size_t origin) {
    if (origin < from_.leading) to_.leading = to_.text.size();
  }
  Span inserted() const {
    if (at_ > 0) return at(at_ - 1);
    return {at(0).begin, at(0).begin};
  }

  const Piece& from_;
  Buffer& to_;
  size_t at_ = 0;
};

// Returns false if the piece is unchanged; out is not used then.
using Normalizer = std::function<bool(const Piece& piece, Buffer& out, MatchSpace& space)>;

class Normalizers {
 public:
  Normalizers() = default;
  explicit Normalizers(const Field& field);  // normalizer of tokenizer.json

  size_t size() const { return steps_.size(); }
  // buffers: size() of them; the result is in one of them, or is the piece itself.
  Piece run(Piece piece, std::vector<Buffer>& buffers, MatchSpace& space) const;
  std::string run(std::string_view text) const;

 private:
  void read(const Field& field, int depth);

  std::vector<Normalizer> steps_;
};

// NFD, or another of Unicode's four forms.
struct UnicodeForm {
  bool composes = false, compatible = false;
};
Normalizer unicode_form(UnicodeForm form);

// SentencePiece's precompiled normalization: a trie of texts, a darts-clone double array, that leads to their
// replacements.
class Charsmap {
 public:
  // bytes: the trie's size in bytes, its units (all of 32 bits, little endian), then the replacements, each
  // with a NUL after it. Throws Error(format) if an offset points outside.
  Charsmap(std::string_view bytes, const std::string& where);

  // Returns the replacement of the shortest entry that this text begins with.
  std::optional<std::string_view> find(std::string_view text) const;

  // Throws Error(format) for a trie that SentencePiece's library cannot follow: it does not check the trie's
  // bounds, and accepts at most 32 texts that lead to a replacement on one path.
  void check_for_sentencepiece(const std::string& where) const;

 private:
  std::string_view replacement(uint32_t offset) const;
  void check(const std::string& where) const;

  std::vector<uint32_t> units_;
  std::string replacements_;
};

Normalizer read_precompiled(const Field& field);

}  // namespace trl::text
