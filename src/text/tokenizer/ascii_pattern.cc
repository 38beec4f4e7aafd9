// Matches well-known split patterns by hand if every byte that decides is ASCII, otherwise by the regex.
#include <array>

#include "text/tokenizer/class_row.h"
#include "text/tokenizer/pattern.h"

namespace trl::text {

namespace {
enum class Kind : uint8_t { unknown, letter, digit, space, other };

constexpr std::array<Kind, 256> kKinds = [] {
  std::array<Kind, 256> kinds{};  // the characters not named here are left to the regex
  for (size_t c = '!'; c <= '~'; ++c) kinds[c] = Kind::other;
  for (size_t c = '0'; c <= '9'; ++c) kinds[c] = Kind::digit;
  for (size_t c = 'a'; c <= 'z'; ++c) kinds[c] = kinds[c - 'a' + 'A'] = Kind::letter;
  for (const char c : {' ', '\t', '\n', '\v', '\f', '\r'}) kinds[static_cast<unsigned char>(c)] = Kind::space;
  return kinds;
}();

Kind kind_at(std::string_view text, size_t at) { return kKinds[static_cast<unsigned char>(text[at])]; }

// Returns the end of the run of characters of one kind; 0: the character that ends it is not known.
size_t run_end(std::string_view text, size_t at, Kind kind) {
  while (at < text.size() && kind_at(text, at) == kind) ++at;
  return at < text.size() && kind_at(text, at) == Kind::unknown ? 0 : at;
}

// Finds the spaces before a word; the last of several belongs to the word.
size_t spaces_before(std::string_view text, size_t begin, size_t end) {
  return end < text.size() && end - begin > 1 ? end - 1 : end;
}

// Returns the end of the match that begins at `at`; 0: not known from only ASCII.
size_t gpt2_match(std::string_view text, size_t at) {
  if (text[at] == '\'') {
    for (const std::string_view ending : {"s", "t", "re", "ve", "m", "ll", "d"})
      if (text.substr(at + 1).starts_with(ending)) return at + 1 + ending.size();
  }
  const bool leads = text[at] == ' ' && at + 1 < text.size() && kind_at(text, at + 1) != Kind::space;
  const size_t begin = leads ? at + 1 : at;
  const Kind kind = kind_at(text, begin);
  if (kind == Kind::unknown) return 0;
  const size_t end = run_end(text, begin, kind);
  return kind == Kind::space && end > 0 ? spaces_before(text, begin, end) : end;
}

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }
bool is_newline(char c) { return c == '\r' || c == '\n'; }

// Returns the length of 's, 't, 're ... in any case; 0: none.
size_t contraction(std::string_view text, size_t at) {
  for (const std::string_view ending : {"s", "t", "re", "ve", "m", "ll", "d"}) {
    if (text.size() - at <= ending.size()) continue;
    if (lower(text[at + 1]) == ending[0] && (ending.size() == 1 || lower(text[at + 2]) == ending[1]))
      return 1 + ending.size();
  }
  return 0;
}

// Matches white space up to its last line end, else as GPT-2's pattern does.
size_t space_match(std::string_view text, size_t at) {
  const size_t end = run_end(text, at, Kind::space);
  for (size_t line = end; line > at; --line) {
    if (is_newline(text[line - 1])) return line;
  }
  return end > 0 ? spaces_before(text, at, end) : 0;
}

// Matches Llama 3's and Qwen's patterns, by the number of digits in a group.
template <size_t digits>
size_t word_match(std::string_view text, size_t at) {
  const Kind kind = kind_at(text, at);
  const Kind next = at + 1 < text.size() ? kind_at(text, at + 1) : Kind::space;
  if (kind == Kind::letter) return run_end(text, at, Kind::letter);
  if (kind == Kind::unknown) return 0;
  if (kind == Kind::digit) {
    size_t end = at + 1;
    while (end < text.size() && end - at < digits && kind_at(text, end) == Kind::digit) ++end;
    return end < text.size() && end - at < digits && kind_at(text, end) == Kind::unknown ? 0 : end;
  }
  if (next == Kind::unknown) return 0;
  if (text[at] == '\'') {
    if (const size_t length = contraction(text, at)) return at + length;
  }
  if (next == Kind::letter && !is_newline(text[at])) return run_end(text, at + 1, Kind::letter);
  if (kind == Kind::space && !(text[at] == ' ' && next == Kind::other)) return space_match(text, at);
  size_t end = run_end(text, kind == Kind::space ? at + 1 : at, Kind::other);
  while (end > 0 && end < text.size() && is_newline(text[end])) ++end;
  return end;
}

class AsciiPattern final : public Pattern {
 public:
  AsciiPattern(std::string_view regex, size_t (*match)(std::string_view, size_t))
      : regex_(regex), match_(match) {}
  void cut(std::string_view text, MatchSpace& space, PartSink part) const override {
    size_t end = 0;
    for (size_t at = 0; at < text.size(); at = end) {
      end = match_(text, at);
      if (end == 0) {
        Regex::Match match{};
        if (!regex_.find(text, at, match, space)) match = {text.size(), text.size()};
        if (match.begin > at) part(at, match.begin, false);
        if (match.begin == text.size()) return;
        at = match.begin;
        end = match.end;
      }
      part(at, end, true);
    }
  }

 private:
  const Regex regex_;
  size_t (*match_)(std::string_view, size_t);
};
}  // namespace

std::unique_ptr<Pattern> ascii_pattern(std::string_view regex) {
  const auto make = [&](auto match) { return std::make_unique<AsciiPattern>(regex, match); };
  if (regex == kGpt2Pattern) return make(gpt2_match);
  if (regex == kLlama3Split) return make(word_match<3>);
  if (regex == kQwen2Split || regex == kQwen35Split) return make(word_match<1>);
  return nullptr;
}

}  // namespace trl::text
