#include "text/tokenizer/pre_tokenizer.h"

#include <limits>

#include "base/text/utf8.h"
#include "text/tokenizer/byte_level.h"
#include "text/tokenizer/characters.h"
#include "text/tokenizer/metaspace.h"
#include "text/tokenizer/pattern.h"
#include "text/tokenizer/rewriter.h"

namespace trl::text {

namespace {
enum class Behavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

Behavior read_behavior(const Field& field) {
  const std::string& name = field.text();
  if (name == "Removed") return Behavior::removed;
  if (name == "Isolated") return Behavior::isolated;
  if (name == "MergedWithPrevious") return Behavior::merged_with_previous;
  if (name == "MergedWithNext") return Behavior::merged_with_next;
  if (name == "Contiguous") return Behavior::contiguous;
  fail(Status::format,
       "{}: '{}' is not one of Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous",
       field.where(), name);
}

class Split final : public PreTokenizer {
 public:
  Split(std::unique_ptr<Pattern> pattern, Behavior behavior, bool invert = false)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}

  void split(const Piece& piece, Buffer&, MatchSpace& space, PieceSink next) const override {
    // One part is held back until it is known whether the following one joins it.
    size_t held_begin = 0;
    size_t held_end = 0;
    bool held = false;
    bool held_match = false;
    pattern_->cut(piece.text, space, [&](size_t begin, size_t end, bool match) {
      match ^= invert_;
      if (behavior_ == Behavior::isolated) return next(piece.part(begin, end));
      if (behavior_ == Behavior::removed) return match ? void() : next(piece.part(begin, end));
      if (held && joins(held_match, match)) {
        held_end = end;
      } else {
        if (held) next(piece.part(held_begin, held_end));
        held_begin = begin;
        held_end = end;
      }
      held = true;
      held_match = match;
    });
    if (held) next(piece.part(held_begin, held_end));
  }

 private:
  bool joins(bool before, bool match) const {
    if (behavior_ == Behavior::contiguous) return before == match;
    return behavior_ == Behavior::merged_with_previous ? match && !before : before && !match;
  }

  std::unique_ptr<Pattern> pattern_;
  Behavior behavior_;
  bool invert_;
};

class PrefixSpace final : public PreTokenizer {
 public:
  void split(const Piece& piece, Buffer& own, MatchSpace&, PieceSink next) const override {
    if (piece.text.starts_with(' ')) return next(piece);
    own.clear();
    own.text = " ";
    own.text += piece.text;
    if (piece.leading > 0) own.leading = 1 + piece.leading;
    if (piece.spans) {
      own.spans.assign(1, piece.spans[0]);
      own.spans.insert(own.spans.end(), piece.spans, piece.spans + piece.text.size());
    }
    next(own.piece(piece));
  }
};

// Spaces become SentencePiece's mark, and one is put before the text.
class Metaspace final : public PreTokenizer {
 public:
  explicit Metaspace(MetaspaceSettings settings) : settings_(std::move(settings)) {}
  void split(const Piece& piece, Buffer& own, MatchSpace&, PieceSink next) const override {
    const std::string& mark = settings_.replacement;
    own.clear();
    if (wanted(piece) && !piece.text.starts_with(' ') && !piece.text.starts_with(mark)) {
      own.text = mark;
      if (piece.spans) own.spans.assign(mark.size(), piece.spans[0]);
    }
    for (size_t i = 0; i < piece.text.size(); ++i) {
      piece.text[i] == ' ' ? own.text.append(mark) : own.text.append(1, piece.text[i]);
      if (i < piece.leading) own.leading = own.text.size();
      if (piece.spans) own.spans.resize(own.text.size(), piece.spans[i]);
    }
    next(own.piece(piece));
  }

 private:
  bool wanted(const Piece& piece) const {
    return settings_.scheme == PrependScheme::always ||
           (settings_.scheme == PrependScheme::first && piece.leading > 0);
  }
  MetaspaceSettings settings_;
};

class FixedLength final : public PreTokenizer {
 public:
  explicit FixedLength(size_t characters) : characters_(characters) {}
  void split(const Piece& piece, Buffer&, MatchSpace&, PieceSink next) const override {
    for (size_t at = 0; at < piece.text.size();) {
      const size_t begin = at;
      for (size_t i = 0; i < characters_ && at < piece.text.size(); ++i)
        base::next_code_point(piece.text, at);
      next(piece.part(begin, at));
    }
  }

 private:
  size_t characters_;
};

// Writes bytes as characters of the byte alphabet.
class Bytes final : public PreTokenizer {
 public:
  void split(const Piece& piece, Buffer& own, MatchSpace&, PieceSink next) const override {
    write_byte_characters(piece, own);
    next(own.piece(piece));
  }
};
}  // namespace

PreTokenizers::PreTokenizers(const Field& field) { read(field, 0); }

void PreTokenizers::read(const Field& field, int depth) {
  if (depth > kMaxNesting) fail(Status::format, "{}: nested too deep", field.where());
  const std::string& type = field.type();
  const auto add = [&](auto step) { steps_.push_back(std::move(step)); };
  if (type == "Sequence") {
    for (const Field& item : field.at("pretokenizers").list()) read(item, depth + 1);
  } else if (type == "ByteLevel") {
    if (field.at("add_prefix_space").boolean()) add(std::make_unique<PrefixSpace>());
    if (field.boolean_or("use_regex", true))
      add(std::make_unique<Split>(ascii_pattern(kGpt2Pattern), Behavior::isolated));
    add(std::make_unique<Bytes>());
  } else if (type == "Split") {
    add(std::make_unique<Split>(read_pattern(field.at("pattern")), read_behavior(field.at("behavior")),
                                field.boolean_or("invert", false)));
  } else if (type == "Digits") {
    const bool individual = field.boolean_or("individual_digits", false);
    add(std::make_unique<Split>(character_pattern(is_numeric),
                                individual ? Behavior::isolated : Behavior::contiguous));
  } else if (type == "Punctuation") {
    const std::optional<Field> behavior = field.find("behavior");
    add(std::make_unique<Split>(character_pattern(is_punctuation),
                                behavior ? read_behavior(*behavior) : Behavior::isolated));
  } else if (type == "WhitespaceSplit") {
    add(std::make_unique<Split>(character_pattern(is_whitespace), Behavior::removed));
  } else if (type == "BertPreTokenizer") {
    add(std::make_unique<Split>(character_pattern(is_whitespace), Behavior::removed));
    add(std::make_unique<Split>(character_pattern(is_punctuation), Behavior::isolated));
  } else if (type == "CharDelimiterSplit") {
    const Field delimiter = field.at("delimiter");
    if (base::count_code_points(delimiter.text()) != 1)
      fail(Status::format, "{}: '{}' instead of one character", delimiter.where(), delimiter.text());
    add(std::make_unique<Split>(literal_pattern(delimiter.text()), Behavior::removed));
  } else if (type == "FixedLength") {
    add(std::make_unique<FixedLength>(
        static_cast<size_t>(field.at("length").integer(1, std::numeric_limits<int64_t>::max()))));
  } else if (type == "Whitespace") {
    add(std::make_unique<Split>(regex_pattern(R"([\w\u200C\u200D]+|[^\w\u200C\u200D\s]+)"), Behavior::removed,
                                true));
  } else if (type == "Metaspace") {
    MetaspaceSettings settings = read_metaspace(field);
    std::unique_ptr<Pattern> mark = literal_pattern(settings.replacement);
    add(std::make_unique<Metaspace>(std::move(settings)));
    if (field.boolean_or("split", true))
      add(std::make_unique<Split>(std::move(mark), Behavior::merged_with_next));
  } else {
    field.unknown(
        "pre-tokenizer",
        "BertPreTokenizer, ByteLevel, CharDelimiterSplit, Digits, FixedLength, Metaspace, Punctuation, "
        "Sequence, Split, Whitespace, WhitespaceSplit");
  }
}

void PreTokenizers::step(size_t index, const Piece& piece, std::vector<Buffer>& buffers, MatchSpace& space,
                         PieceSink word) const {
  if (piece.text.empty()) return;
  if (index == steps_.size()) return word(piece);
  steps_[index]->split(piece, buffers[index], space,
                       [&](const Piece& part) { step(index + 1, part, buffers, space, word); });
}

}  // namespace trl::text
