#include "text/tokenizer/normalizer.h"

#include "text/tokenizer/characters.h"

namespace trl::text {

namespace {
// Normalizers that look at one character at a time: BertNormalizer's steps, StripAccents, Nmt.
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

class Mapped {
 public:
  explicit Mapped(CharacterMap map) : map_(map) {
    for (char32_t c = 0; c < 0x80; ++c) stays_[c] = map(c) == c;
  }
  bool operator()(const Piece& piece, Buffer& out, MatchSpace&) const {
    Rewriter rewriter(piece, out);
    bool changed = false;
    for (size_t at = 0; at < piece.text.size();) {
      const auto byte = static_cast<unsigned char>(piece.text[at]);
      if (byte < 0x80 && stays_[byte]) {
        ++at;
        continue;
      }
      const size_t begin = at;
      const char32_t c = base::next_code_point(piece.text, at), mapped = map_(c);
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

bool space_ideographs(const Piece& piece, Buffer& out, MatchSpace&) {
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

bool lowercase(const Piece& piece, Buffer& out, MatchSpace&) {
  Rewriter rewriter(piece, out);
  for (size_t at = 0; at < piece.text.size();) {
    const char32_t c = base::next_code_point(piece.text, at);
    rewriter.put(c == 0x130 ? U'i' : to_lower(c), 0);
    if (c == 0x130) rewriter.put(0x307, 1);  // the one character whose lower case is two
  }
  return true;
}

Normalizer prepended(std::string text) {
  return [text = std::move(text)](const Piece& piece, Buffer& out, MatchSpace&) {
    if (piece.text.empty() || text.empty()) return false;
    out.assign(text, piece);
    return true;
  };
}

Normalizer replaced(Pattern pattern, std::string content) {
  return [pattern = std::move(pattern), content = std::move(content)](const Piece& piece, Buffer& out,
                                                                      MatchSpace& space) {
    Rewriter rewriter(piece, out);
    bool changed = false;
    pattern(piece.text, space, [&](size_t, size_t end, bool match) {
      if (!match) return rewriter.copy(end);
      changed = true;
      rewriter.skip_to(end);
      rewriter.insert(content);
    });
    return changed;
  };
}

Normalizer stripped(bool left, bool right) {
  return [left, right](const Piece& piece, Buffer& out, MatchSpace&) {
    size_t begin = piece.text.size(), end = 0;
    for (size_t at = 0; at < piece.text.size();) {
      const size_t here = at;
      if (is_whitespace(base::next_code_point(piece.text, at))) continue;
      begin = std::min(begin, here);
      end = at;
    }
    if (!left) begin = 0;
    if (!right) end = piece.text.size();
    if (begin == 0 && end == piece.text.size()) return false;
    Rewriter rewriter(piece, out);
    rewriter.skip_to(std::min(begin, end));
    rewriter.copy(end);
    return true;
  };
}
}  // namespace

Normalizers::Normalizers(const Field& field) { read(field, 0); }

void Normalizers::read(const Field& field, int depth) {
  if (depth > kMaxNesting) fail(Status::format, "{}: nested too deep", field.where());
  const std::string& type = field.type();
  const auto add = [&](auto step) { steps_.emplace_back(std::move(step)); };
  if (type == "Sequence") {
    for (const Field& item : field.at("normalizers").list()) read(item, depth + 1);
  } else if (type == "NFC" || type == "NFD" || type == "NFKC" || type == "NFKD") {
    add(unicode_form({.composes = type.ends_with('C'), .compatible = type.size() == 4}));
  } else if (type == "Lowercase") {
    add(lowercase);
  } else if (type == "StripAccents") {
    add(Mapped(without_accent));
  } else if (type == "Nmt") {
    add(Mapped(nmt));
  } else if (type == "ByteLevel") {
    add([](const Piece& piece, Buffer& out, MatchSpace&) {
      write_byte_characters(piece, out);
      return true;
    });
  } else if (type == "Precompiled") {
    add(read_precompiled(field));
  } else if (type == "BertNormalizer") {
    const bool lower = field.at("lowercase").boolean();
    if (field.at("clean_text").boolean()) add(Mapped(cleaned));
    if (field.at("handle_chinese_chars").boolean()) add(space_ideographs);
    if (field.boolean_or("strip_accents", lower)) {
      add(unicode_form({}));
      add(Mapped(without_nonspacing));
    }
    if (lower) add(lowercase);
  } else if (type == "Prepend") {
    add(prepended(field.at("prepend").text()));
  } else if (type == "Replace") {
    add(replaced(read_pattern(field.at("pattern")), field.at("content").text()));
  } else if (type == "Strip") {
    add(stripped(field.at("strip_left").boolean(), field.at("strip_right").boolean()));
  } else {
    field.unknown("normalizer",
                  "BertNormalizer, ByteLevel, Lowercase, NFC, NFD, NFKC, NFKD, Nmt, Precompiled, Prepend, "
                  "Replace, Sequence, Strip, StripAccents");
  }
}

Piece Normalizers::run(Piece piece, std::vector<Buffer>& buffers, MatchSpace& space) const {
  const size_t before = piece.text.size();
  for (size_t i = 0; i < steps_.size() && !piece.text.empty(); ++i) {
    if (!steps_[i](piece, buffers[i], space)) continue;
    piece = buffers[i].piece(piece);
    refuse_growth(before, piece.text.size(), "normalizer");
  }
  return piece;
}

std::string Normalizers::run(std::string_view text) const {
  std::vector<Buffer> buffers(size());
  MatchSpace space;
  return std::string(run(Piece{text}, buffers, space).text);
}

}  // namespace trl::text
