// Cuts a text by a regex, a literal or a class of characters.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "text/tokenizer/json_reader.h"
#include "text/tokenizer/piece.h"

namespace trl::text {

// Memory that one thread needs during a search of a Regex; reused for all searches of one call.
class MatchSpace {
 public:
  MatchSpace();
  ~MatchSpace();
  MatchSpace(const MatchSpace&) = delete;
  MatchSpace& operator=(const MatchSpace&) = delete;

 private:
  friend class Regex;
  struct State;
  std::unique_ptr<State> state_;
};

// A compiled pattern. Immutable: any thread may search with it, each call with its own MatchSpace.
class Regex {
 public:
  // Throws Error(unsupported) or Error(format), naming the pattern.
  explicit Regex(std::string_view oniguruma);
  ~Regex();
  Regex(Regex&&) noexcept;

  struct Match {
    size_t begin;
    size_t end;
  };
  // Finds the first match at or after from. text is valid UTF-8. Throws Error(unsupported) when the search
  // does not end within its limits.
  bool find(std::string_view text, size_t from, Match& match, MatchSpace& space) const;

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
};

// Translates the patterns of tokenizer.json, which are Oniguruma's (Ruby syntax, Unicode), for PCRE2, which
// runs them. Debian has Oniguruma itself (libonig-dev), which needs no translation, but it interprets a
// pattern that PCRE2 compiles to machine code: on English, GPT-2's pattern splits 19 MB/s there and 115 here
// on one core. Throws Error(unsupported) for a construct whose meaning would change.
std::string pcre_from_oniguruma(std::string_view pattern);

// Translates the names of Unicode properties in Oniguruma's patterns into PCRE2's words.
// Returns empty if the property is not supported.
std::string property_name(std::string_view oniguruma);
// Returns the characters that a property (in PCRE2's words) has gained since PCRE2's version of Unicode, as
// items of a character class; may be empty.
std::string_view newer_characters(std::string_view property);

// GPT-2's split pattern, which ByteLevel applies unless use_regex is false.
inline constexpr const char* kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// begin, end, is_match: consecutive parts that cover the text
using PartSink = FunctionRef<void(size_t, size_t, bool)>;

// Cuts a text.
using Pattern = std::function<void(std::string_view text, MatchSpace& space, PartSink part)>;

Pattern regex_pattern(std::string_view oniguruma);
// Does the same for some patterns, faster in ASCII; empty: the pattern is not one of them.
Pattern ascii_pattern(std::string_view oniguruma);
Pattern literal_pattern(std::string literal);
Pattern character_pattern(bool (*matches)(char32_t));
Pattern read_pattern(const Field& field);  // {"Regex": ...} or {"String": ...}

}  // namespace trl::text
