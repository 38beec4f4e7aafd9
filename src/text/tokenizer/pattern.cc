#include "text/tokenizer/pattern.h"

#include "base/text/utf8.h"

namespace trl::text {

namespace {
class RegexPattern final : public Pattern {
 public:
  explicit RegexPattern(std::string_view oniguruma) : regex_(oniguruma) {}

  void cut(std::string_view text, MatchSpace& space, PartSink part) const override {
    size_t done = 0;
    size_t from = 0;
    bool matched = false;
    Regex::Match match{};
    while (from <= text.size() && regex_.find(text, from, match, space)) {
      // An empty match right after a match is skipped.
      if (match.begin == match.end && matched && match.end == done) {
        if (match.end >= text.size()) break;
        from = match.end;
        base::next_code_point(text, from);
        continue;
      }
      if (done != match.begin) part(done, match.begin, false);
      part(match.begin, match.end, true);
      done = from = match.end;
      matched = true;
    }
    if (done != text.size()) part(done, text.size(), false);
  }

 private:
  Regex regex_;
};

class LiteralPattern final : public Pattern {
 public:
  explicit LiteralPattern(std::string literal) : literal_(std::move(literal)) {}

  void cut(std::string_view text, MatchSpace&, PartSink part) const override {
    size_t done = 0;
    for (size_t at = 0; (at = text.find(literal_, at)) != std::string_view::npos; at = done) {
      if (done != at) part(done, at, false);
      done = at + literal_.size();
      part(at, done, true);
    }
    if (done != text.size()) part(done, text.size(), false);
  }

 private:
  std::string literal_;
};

class CharacterPattern final : public Pattern {
 public:
  explicit CharacterPattern(bool (*matches)(char32_t)) : matches_(matches) {}

  void cut(std::string_view text, MatchSpace&, PartSink part) const override {
    size_t done = 0;
    for (size_t at = 0; at < text.size();) {
      const size_t begin = at;
      if (!matches_(base::next_code_point(text, at))) continue;
      if (done != begin) part(done, begin, false);
      part(begin, at, true);
      done = at;
    }
    if (done != text.size()) part(done, text.size(), false);
  }

 private:
  bool (*matches_)(char32_t);
};
}  // namespace

std::unique_ptr<Pattern> regex_pattern(std::string_view oniguruma) {
  return std::make_unique<RegexPattern>(oniguruma);
}
std::unique_ptr<Pattern> character_pattern(bool (*matches)(char32_t)) {
  return std::make_unique<CharacterPattern>(matches);
}
std::unique_ptr<Pattern> literal_pattern(std::string literal) {
  if (literal.empty()) return regex_pattern("");
  return std::make_unique<LiteralPattern>(std::move(literal));
}

std::unique_ptr<Pattern> read_pattern(const Field& field) {
  if (const std::optional<Field> literal = field.find("String")) return literal_pattern(literal->text());
  const Field regex = field.at("Regex");
  try {
    std::unique_ptr<Pattern> known = ascii_pattern(regex.text());
    return known ? std::move(known) : regex_pattern(regex.text());
  } catch (const Error& error) {
    fail(error.status(), "{}: {}", regex.where(), error.message());
  }
}

}  // namespace trl::text
