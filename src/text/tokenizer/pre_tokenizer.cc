#include <limits>

#include "base/text/utf8.h"
#include "text/tokenizer/characters.h"
#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/pattern.h"
#include "text/tokenizer/piece.h"
#include "text/tokenizer/pipeline.h"
#include "text/tokenizer/steps.h"

namespace trl::text {

void write_byte_characters(const Piece& piece, Buffer& out) {
  out.text.resize(2 * piece.text.size());
  char* to = out.text.data();
  out.leading = 0;
  if (piece.spans) out.spans.clear();
  for (size_t i = 0; i < piece.text.size(); ++i) {
    const char16_t c = kByteCharacters[static_cast<unsigned char>(piece.text[i])];
    const bool two = c >= 0x80;
    if (two) *to++ = static_cast<char>(0xC0 | (c >> 6));
    *to++ = static_cast<char>(two ? 0x80 | (c & 0x3F) : c);
    if (i < piece.leading) out.leading = static_cast<size_t>(to - out.text.data());
    if (piece.spans) out.spans.resize(out.spans.size() + (two ? 2 : 1), piece.spans[i]);
  }
  out.text.resize(static_cast<size_t>(to - out.text.data()));
}

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

struct Split {
  Pattern pattern;
  Behavior behavior;
  bool invert = false;

  void operator()(const Piece& piece, Buffer&, MatchSpace& space, PieceSink next) const {
    // One part is held back until it is known whether the following one joins it.
    size_t held_begin = 0, held_end = 0;
    bool held = false, held_match = false;
    pattern(piece.text, space, [&](size_t begin, size_t end, bool match) {
      match ^= invert;
      if (behavior == Behavior::isolated) return next(piece.part(begin, end));
      if (behavior == Behavior::removed) return match ? void() : next(piece.part(begin, end));
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

  bool joins(bool before, bool match) const {
    if (behavior == Behavior::contiguous) return before == match;
    return behavior == Behavior::merged_with_previous ? match && !before : before && !match;
  }
};

void prefix_space(const Piece& piece, Buffer& own, MatchSpace&, PieceSink next) {
  if (piece.text.starts_with(' ')) return next(piece);
  own.assign(" ", piece);
  next(own.piece(piece));
}

// Turns spaces into SentencePiece's mark, and puts one before the text.
struct Metaspace {
  MetaspaceSettings settings;

  void operator()(const Piece& piece, Buffer& own, MatchSpace&, PieceSink next) const {
    const std::string& mark = settings.replacement;
    const bool wanted = settings.scheme == PrependScheme::always ||
                        (settings.scheme == PrependScheme::first && piece.leading > 0);
    own.clear();
    if (wanted && !piece.text.starts_with(' ') && !piece.text.starts_with(mark)) {
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
};

struct FixedLength {
  int64_t characters;

  void operator()(const Piece& piece, Buffer&, MatchSpace&, PieceSink next) const {
    for (size_t at = 0; at < piece.text.size();) {
      const size_t begin = at;
      for (int64_t i = 0; i < characters && at < piece.text.size(); ++i)
        base::next_code_point(piece.text, at);
      next(piece.part(begin, at));
    }
  }
};

void write_bytes(const Piece& piece, Buffer& own, MatchSpace&, PieceSink next) {
  write_byte_characters(piece, own);
  next(own.piece(piece));
}
}  // namespace

PreTokenizers::PreTokenizers(const Field& field) { read(field, 0); }

void PreTokenizers::read(const Field& field, int depth) {
  if (depth > kMaxNesting) fail(Status::format, "{}: nested too deep", field.where());
  const std::string& type = field.type();
  const auto add = [&](auto made) { steps_.emplace_back(std::move(made)); };
  if (type == "Sequence") {
    for (const Field& item : field.at("pretokenizers").list()) read(item, depth + 1);
  } else if (type == "ByteLevel") {
    if (field.at("add_prefix_space").boolean()) add(prefix_space);
    if (field.boolean_or("use_regex", true)) add(Split{ascii_pattern(kGpt2Pattern), Behavior::isolated});
    add(write_bytes);
  } else if (type == "Split") {
    add(Split{read_pattern(field.at("pattern")), read_behavior(field.at("behavior")),
              field.boolean_or("invert", false)});
  } else if (type == "Digits") {
    const bool individual = field.boolean_or("individual_digits", false);
    add(Split{character_pattern(is_numeric), individual ? Behavior::isolated : Behavior::contiguous});
  } else if (type == "Punctuation") {
    const std::optional<Field> behavior = field.find("behavior");
    add(Split{character_pattern(is_punctuation), behavior ? read_behavior(*behavior) : Behavior::isolated});
  } else if (type == "WhitespaceSplit") {
    add(Split{character_pattern(is_whitespace), Behavior::removed});
  } else if (type == "BertPreTokenizer") {
    add(Split{character_pattern(is_whitespace), Behavior::removed});
    add(Split{character_pattern(is_punctuation), Behavior::isolated});
  } else if (type == "CharDelimiterSplit") {
    const Field delimiter = field.at("delimiter");
    if (base::count_code_points(delimiter.text()) != 1)
      fail(Status::format, "{}: '{}' instead of one character", delimiter.where(), delimiter.text());
    add(Split{literal_pattern(delimiter.text()), Behavior::removed});
  } else if (type == "FixedLength") {
    add(FixedLength{field.at("length").integer(1, std::numeric_limits<int64_t>::max())});
  } else if (type == "Whitespace") {
    add(Split{regex_pattern(R"([\w\u200C\u200D]+|[^\w\u200C\u200D\s]+)"), Behavior::removed, true});
  } else if (type == "Metaspace") {
    MetaspaceSettings settings = read_metaspace(field);
    Pattern mark = literal_pattern(settings.replacement);
    add(Metaspace{std::move(settings)});
    if (field.boolean_or("split", true)) add(Split{std::move(mark), Behavior::merged_with_next});
  } else {
    field.unknown("pre-tokenizer",
                  "BertPreTokenizer, ByteLevel, CharDelimiterSplit, Digits, FixedLength, Metaspace, "
                  "Punctuation, Sequence, Split, Whitespace, WhitespaceSplit");
  }
}

void PreTokenizers::step(size_t index, const Piece& piece, std::vector<Buffer>& buffers, MatchSpace& space,
                         PieceSink word) const {
  if (piece.text.empty()) return;
  if (index == steps_.size()) return word(piece);
  steps_[index](piece, buffers[index], space,
                [&](const Piece& part) { step(index + 1, part, buffers, space, word); });
}

}  // namespace trl::text
