// GPT-2's split pattern by hand where every byte that decides is ASCII, and by the regex where one is not.
#include <array>

#include "text/tokenizer/pattern.h"

namespace trl::text {

namespace {
enum class Kind : uint8_t { unknown, letter, digit, space, other };

constexpr std::array<Kind, 256> kKinds = [] {
  std::array<Kind, 256> kinds{};  // what is not named here: left to the regex
  for (size_t c = '!'; c <= '~'; ++c) kinds[c] = Kind::other;
  for (size_t c = '0'; c <= '9'; ++c) kinds[c] = Kind::digit;
  for (size_t c = 'a'; c <= 'z'; ++c) kinds[c] = kinds[c - 'a' + 'A'] = Kind::letter;
  for (const char c : {' ', '\t', '\n', '\v', '\f', '\r'}) kinds[static_cast<size_t>(c)] = Kind::space;
  return kinds;
}();

Kind kind_at(std::string_view text, size_t at) { return kKinds[static_cast<unsigned char>(text[at])]; }

bool is_contraction(std::string_view text, size_t at, std::string_view ending) {
  return text.substr(at + 1).starts_with(ending);
}

// The end of the match that begins at `at`; 0: not known from ASCII alone.
size_t ascii_match(std::string_view text, size_t at) {
  if (text[at] == '\'') {
    for (const std::string_view ending : {"s", "t", "re", "ve", "m", "ll", "d"})
      if (is_contraction(text, at, ending)) return at + 1 + ending.size();
  }
  const bool leads = text[at] == ' ' && at + 1 < text.size() && kind_at(text, at + 1) != Kind::space;
  const size_t begin = leads ? at + 1 : at;
  const Kind kind = kind_at(text, begin);
  size_t end = begin + 1;
  while (end < text.size() && kind_at(text, end) == kind) ++end;
  if (kind == Kind::unknown || (end < text.size() && kind_at(text, end) == Kind::unknown)) return 0;
  // Of several spaces the last one belongs to what follows.
  return kind == Kind::space && end < text.size() && end - begin > 1 ? end - 1 : end;
}

class Gpt2Pattern final : public Pattern {
 public:
  void cut(std::string_view text, MatchSpace& space, PartSink part) const override {
    size_t end = 0;
    for (size_t at = 0; at < text.size(); at = end) {
      end = ascii_match(text, at);
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
  const Regex regex_{kGpt2Pattern};
};
}  // namespace

std::unique_ptr<Pattern> gpt2_pattern() { return std::make_unique<Gpt2Pattern>(); }

}  // namespace trl::text
