// A paragraph is cut into chunks (white space, words, parts of words after hyphens, dashes), and chunks fill
// lines.
#include "text/chat_template/word_wrap.h"

#include <algorithm>
#include <deque>

#include "text/chat_template/unicode.h"

namespace trl::text::jinja {

namespace {

using Text32 = std::u32string_view;

bool is_blank(char32_t c) { return c == ' ' || (c >= 9 && c <= 13); }
bool is_letter_of_word(char32_t c) { return is_word(c) && !is_decimal(c); }

class Chunks {
 public:
  Chunks(Text32 text, bool on_hyphens) : text_(text), on_hyphens_(on_hyphens) {}

  std::deque<Text32> run() {
    std::deque<Text32> chunks;
    for (size_t at = 0; at < text_.size();) {
      const size_t end = chunk_end(at);
      chunks.push_back(text_.substr(at, end - at));
      at = end;
    }
    return chunks;
  }

 private:
  char32_t at(size_t i) const { return i < text_.size() ? text_[i] : U'\0'; }
  bool letter(size_t i) const { return i < text_.size() && is_letter_of_word(text_[i]); }

  // A run of at least two hyphens at i with a word's letter after it; its end, or 0.
  size_t dash_end(size_t i) const {
    size_t end = i;
    while (at(end) == '-') ++end;
    return end >= i + 2 && end < text_.size() && is_word(text_[end]) ? end : 0;
  }
  bool dash_may_follow(size_t i) const {  // the character before i
    constexpr std::u32string_view kMarks = U"!\"'&.,?";
    return i > 0 && (is_word(text_[i - 1]) || kMarks.find(text_[i - 1]) != std::u32string_view::npos);
  }
  // Before the hyphen at i come two letters, or a letter, a hyphen and a letter; after it come two letters,
  // which may have a hyphen between them.
  bool breaks_behind(size_t i) const {
    if (at(i) != '-') return false;
    const bool two = i >= 2 && letter(i - 1) && letter(i - 2);
    const bool one = i >= 3 && letter(i - 1) && at(i - 2) == '-' && letter(i - 3);
    if (!two && !one) return false;
    return letter(i + 1) && (letter(i + 2) || (at(i + 2) == '-' && letter(i + 3)));
  }

  size_t chunk_end(size_t begin) const {
    size_t end = begin;
    if (is_blank(text_[begin])) {
      while (end < text_.size() && is_blank(text_[end])) ++end;
      return end;
    }
    if (!on_hyphens_) {
      while (end < text_.size() && !is_blank(text_[end])) ++end;
      return end;
    }
    if (const size_t dash = dash_may_follow(begin) ? dash_end(begin) : 0; dash != 0) return dash;
    for (end = begin + 1; end < text_.size() && !is_blank(text_[end]); ++end) {
      if (breaks_behind(end)) return end + 1;
      if (dash_may_follow(end) && dash_end(end) != 0) return end;
    }
    return end;
  }

  Text32 text_;
  bool on_hyphens_;
};

bool all_blank(Text32 text) { return std::all_of(text.begin(), text.end(), is_space); }

// The part of a chunk that still fits into room characters: up to a hyphen where it has one.
size_t part_of_long(Text32 chunk, size_t room, bool on_hyphens) {
  if (!on_hyphens || chunk.size() <= room) return room;
  const size_t hyphen = room == 0 ? Text32::npos : chunk.rfind(U'-', room - 1);
  if (hyphen == Text32::npos || hyphen == 0) return room;
  const bool only_hyphens = chunk.substr(0, hyphen).find_first_not_of(U'-') == Text32::npos;
  return only_hyphens ? room : hyphen + 1;
}

}  // namespace

std::vector<std::u32string> wrap_words(Run& run, Text32 paragraph, const WrapStyle& style) {
  run.spend(static_cast<int64_t>(paragraph.size() / 2));
  run.produce(paragraph.size() * sizeof(Text32));
  const auto width = static_cast<size_t>(std::min<int64_t>(style.width, INT32_MAX));
  std::deque<Text32> chunks = Chunks(paragraph, style.break_on_hyphens).run();
  std::vector<std::u32string> lines;
  while (!chunks.empty()) {
    run.spend(1);
    if (!lines.empty() && all_blank(chunks.front())) chunks.pop_front();
    std::vector<Text32> line;
    size_t used = 0;
    while (!chunks.empty() && used + chunks.front().size() <= width) {
      used += chunks.front().size();
      line.push_back(chunks.front());
      chunks.pop_front();
    }
    if (!chunks.empty() && chunks.front().size() > width) {
      Text32& longer = chunks.front();
      if (style.break_long_words) {
        const size_t end = part_of_long(longer, width - used, style.break_on_hyphens);
        line.push_back(longer.substr(0, end));
        longer.remove_prefix(end);
      } else if (line.empty()) {
        line.push_back(longer);
        chunks.pop_front();
      }
    }
    if (!line.empty() && all_blank(line.back())) line.pop_back();
    if (line.empty()) continue;
    std::u32string joined;
    for (const Text32 chunk : line) joined += chunk;
    lines.push_back(std::move(joined));
  }
  return lines;
}

}  // namespace trl::text::jinja
