#include "data/rows_file.h"

#include <array>
#include <string_view>

#include "base/arithmetic/random.h"
#include "base/error.h"
#include "base/files/files.h"

namespace trl::bench {

namespace {

constexpr std::array<std::string_view, 48> kWords = {
    "the",     "keeper",  "of",    "a",      "light",  "counts", "boats",  "every",   "morning", "and",
    "writes",  "down",    "how",   "many",   "have",   "passed", "in",     "night",   "while",   "gulls",
    "fly",     "over",    "his",   "roof",   "some",   "carry",  "apples", "others",  "letters", "for",
    "islands", "between", "which", "there",  "is",     "no",     "bridge", "because", "storms",  "took",
    "it",      "away",    "when",  "winter", "lasted", "until",  "May",    "was"};

void append_words(std::string& text, base::TorchGenerator& generator, size_t bytes) {
  for (const size_t end = text.size() + bytes; text.size() < end;) {
    const uint32_t draw = generator.random32();
    if (draw % 16 == 0) {
      text += std::to_string(draw >> 20);
    } else {
      text += kWords[(draw >> 8) % kWords.size()];
    }
    text += draw % 11 == 0 ? ". " : " ";
  }
}

}  // namespace

void repeat_rows(const std::string& from, int64_t rows, const std::string& to) {
  const std::string text = base::read_file(from);
  if (text.empty() || text.back() != '\n') fail(Status::format, "{}: lines of rows are expected", from);
  base::FileWriter out(to);
  for (size_t at = 0; rows > 0; --rows) {
    const size_t end = text.find('\n', at) + 1;
    out.write(std::string_view(text).substr(at, end - at));
    at = end == text.size() ? 0 : end;
  }
  out.close();
}

void make_rows(int64_t bytes, const std::string& to) {
  constexpr size_t kPiece = size_t{1} << 20;
  base::TorchGenerator generator(42);
  base::FileWriter out(to);
  std::string piece;
  for (int64_t written = 0; written < bytes; written += static_cast<int64_t>(piece.size())) {
    piece.clear();
    while (piece.size() < kPiece) {
      piece += "{\"question\": \"";
      append_words(piece, generator, 180 + generator.random32() % 120);
      piece += "?\", \"answer\": \"";
      append_words(piece, generator, 300 + generator.random32() % 200);
      piece += "\"}\n";
    }
    out.write(piece);
  }
  out.close();
}

}  // namespace trl::bench
