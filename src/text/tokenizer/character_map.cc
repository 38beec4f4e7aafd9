// Normalizers that look at one character at a time: BertNormalizer's steps, StripAccents, Nmt.
#include "base/text/utf8.h"
#include "text/tokenizer/characters.h"
#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/rewriter.h"

namespace trl::text {

namespace {
constexpr char32_t kDropped = 0xFFFFFFFF;
using CharacterMap = char32_t (*)(char32_t);

char32_t without_accent(char32_t c) { return is_combining_mark(c) ? kDropped : c; }
char32_t without_nonspacing(char32_t c) { return is_nonspacing_mark(c) ? kDropped : c; }
char32_t cleaned(char32_t c) {
  if (c == 0xFFFD || is_control(c)) return kDropped;
  return is_whitespace(c) ? U' ' : c;
}

char32_t nmt(char32_t c) {
  if (c < 0x80) {
    if (c == '\t' || c == '\n' || c == '\f' || c == '\r') return U' ';
    return (c > 0 && c < 0x20) || c == 0x7F ? kDropped : c;
  }
  if (c == 0x8F || c == 0x9F) return kDropped;
  const bool space = c == 0x1680 || (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 ||
                     c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
  return space ? U' ' : c;
}

class Mapped final : public Normalizer {
 public:
  explicit Mapped(CharacterMap map) : map_(map) {
    for (char32_t c = 0; c < 0x80; ++c) stays_[c] = map(c) == c;
  }
  bool apply(const Piece& piece, Buffer& out, MatchSpace&) const override {
    Rewriter rewriter(piece, out);
    bool changed = false;
    for (size_t at = 0; at < piece.text.size();) {
      const auto byte = static_cast<unsigned char>(piece.text[at]);
      if (byte < 0x80 && stays_[byte]) {
        ++at;
        continue;
      }
      const size_t begin = at;
      const char32_t c = base::next_code_point(piece.text, at);
      const char32_t mapped = map_(c);
      if (mapped == c) continue;
      changed = true;
      rewriter.copy(begin);
      mapped == kDropped ? rewriter.skip(1) : rewriter.put(mapped, 0);
    }
    if (changed) rewriter.copy(piece.text.size());
    return changed;
  }

 private:
  CharacterMap map_;
  bool stays_[0x80] = {};  // of ASCII characters
};

bool is_ideograph(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0xF900 && c <= 0xFAFF) ||
         (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0x2F800 && c <= 0x2FA1F);
}

class SpacedIdeographs final : public Normalizer {
 public:
  bool apply(const Piece& piece, Buffer& out, MatchSpace&) const override {
    Rewriter rewriter(piece, out);
    bool changed = false;
    for (size_t at = 0; at < piece.text.size();) {
      const size_t begin = at;
      if (static_cast<unsigned char>(piece.text[at]) < 0xE3) {  // below U+3000
        ++at;
        continue;
      }
      const char32_t c = base::next_code_point(piece.text, at);
      if (!is_ideograph(c)) continue;
      changed = true;
      rewriter.copy(begin);
      rewriter.put(U' ', 0);
      rewriter.put(c, 1);
      rewriter.put(U' ', 1);
    }
    if (changed) rewriter.copy(piece.text.size());
    return changed;
  }
};
}  // namespace

std::unique_ptr<Normalizer> strip_accents() { return std::make_unique<Mapped>(without_accent); }
std::unique_ptr<Normalizer> nmt_rules() { return std::make_unique<Mapped>(nmt); }

std::vector<std::unique_ptr<Normalizer>> read_bert_normalizer(const Field& field) {
  std::vector<std::unique_ptr<Normalizer>> steps;
  const bool lower = field.at("lowercase").boolean();
  if (field.at("clean_text").boolean()) steps.push_back(std::make_unique<Mapped>(cleaned));
  if (field.at("handle_chinese_chars").boolean()) steps.push_back(std::make_unique<SpacedIdeographs>());
  if (field.boolean_or("strip_accents", lower)) {
    steps.push_back(unicode_form(UnicodeForm::nfd));
    steps.push_back(std::make_unique<Mapped>(without_nonspacing));
  }
  if (lower) steps.push_back(lowercase());
  return steps;
}

}  // namespace trl::text
