#include "text/tokenizer/normalizer.h"

#include "base/text/utf8.h"
#include "text/tokenizer/byte_level.h"
#include "text/tokenizer/characters.h"
#include "text/tokenizer/charsmap.h"
#include "text/tokenizer/growth.h"
#include "text/tokenizer/pattern.h"
#include "text/tokenizer/rewriter.h"

namespace trl::text {

namespace {
class Prepend final : public Normalizer {
 public:
  explicit Prepend(std::string text) : text_(std::move(text)) {}
  bool apply(const Piece& piece, Buffer& out, MatchSpace&) const override {
    if (piece.text.empty() || text_.empty()) return false;
    out.clear();
    out.text = text_;
    out.text += piece.text;
    if (piece.leading > 0) out.leading = text_.size() + piece.leading;
    if (piece.spans) {
      out.spans.assign(text_.size(), piece.spans[0]);
      out.spans.insert(out.spans.end(), piece.spans, piece.spans + piece.text.size());
    }
    return true;
  }

 private:
  std::string text_;
};

class Replace final : public Normalizer {
 public:
  Replace(std::unique_ptr<Pattern> pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  bool apply(const Piece& piece, Buffer& out, MatchSpace& space) const override {
    Rewriter rewriter(piece, out);
    bool changed = false;
    pattern_->cut(piece.text, space, [&](size_t, size_t end, bool match) {
      if (!match) return rewriter.copy(end);
      changed = true;
      rewriter.skip_to(end);
      rewriter.insert(content_);
    });
    return changed;
  }

 private:
  std::unique_ptr<Pattern> pattern_;
  std::string content_;
};

class Strip final : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}
  bool apply(const Piece& piece, Buffer& out, MatchSpace&) const override {
    size_t begin = piece.text.size();
    size_t end = 0;
    for (size_t at = 0; at < piece.text.size();) {
      const size_t here = at;
      if (is_whitespace(base::next_code_point(piece.text, at))) continue;
      begin = std::min(begin, here);
      end = at;
    }
    if (!left_) begin = 0;
    if (!right_) end = piece.text.size();
    if (begin == 0 && end == piece.text.size()) return false;
    Rewriter rewriter(piece, out);
    rewriter.skip_to(std::min(begin, end));
    rewriter.copy(end);
    return true;
  }

 private:
  bool left_;
  bool right_;
};

class Lowercase final : public Normalizer {
 public:
  bool apply(const Piece& piece, Buffer& out, MatchSpace&) const override {
    Rewriter rewriter(piece, out);
    for (size_t at = 0; at < piece.text.size();) {
      const char32_t c = base::next_code_point(piece.text, at);
      rewriter.put(c == 0x130 ? U'i' : to_lower(c), 0);
      if (c == 0x130) rewriter.put(0x307, 1);  // the one character whose lower case is two
    }
    return true;
  }
};

class ByteLevelNormalizer final : public Normalizer {
 public:
  bool apply(const Piece& piece, Buffer& out, MatchSpace&) const override {
    write_byte_characters(piece, out);
    return true;
  }
};
}  // namespace

std::unique_ptr<Normalizer> lowercase() { return std::make_unique<Lowercase>(); }

Normalizers::Normalizers(const Field& field) { read(field, 0); }

void Normalizers::read(const Field& field, int depth) {
  if (depth > kMaxNesting) fail(Status::format, "{}: nested too deep", field.where());
  const std::string& type = field.type();
  const auto add = [&](auto step) { steps_.push_back(std::move(step)); };
  if (type == "Sequence") {
    for (const Field& item : field.at("normalizers").list()) read(item, depth + 1);
  } else if (type == "NFC") {
    add(unicode_form(UnicodeForm::nfc));
  } else if (type == "NFD") {
    add(unicode_form(UnicodeForm::nfd));
  } else if (type == "NFKC") {
    add(unicode_form(UnicodeForm::nfkc));
  } else if (type == "NFKD") {
    add(unicode_form(UnicodeForm::nfkd));
  } else if (type == "Lowercase") {
    add(lowercase());
  } else if (type == "StripAccents") {
    add(strip_accents());
  } else if (type == "Nmt") {
    add(nmt_rules());
  } else if (type == "ByteLevel") {
    add(std::make_unique<ByteLevelNormalizer>());
  } else if (type == "Precompiled") {
    add(read_precompiled(field));
  } else if (type == "BertNormalizer") {
    for (auto& step : read_bert_normalizer(field)) add(std::move(step));
  } else if (type == "Prepend") {
    add(std::make_unique<Prepend>(field.at("prepend").text()));
  } else if (type == "Replace") {
    add(std::make_unique<Replace>(read_pattern(field.at("pattern")), field.at("content").text()));
  } else if (type == "Strip") {
    add(std::make_unique<Strip>(field.at("strip_left").boolean(), field.at("strip_right").boolean()));
  } else {
    field.unknown("normalizer",
                  "BertNormalizer, ByteLevel, Lowercase, NFC, NFD, NFKC, NFKD, Nmt, Precompiled, Prepend, "
                  "Replace, Sequence, Strip, StripAccents");
  }
}

Piece Normalizers::run(Piece piece, std::vector<Buffer>& buffers, MatchSpace& space) const {
  const size_t before = piece.text.size();
  for (size_t i = 0; i < steps_.size() && !piece.text.empty(); ++i) {
    if (!steps_[i]->apply(piece, buffers[i], space)) continue;
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
