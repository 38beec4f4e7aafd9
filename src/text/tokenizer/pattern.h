// Cuts a text by a regex, a literal or a class of characters.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "text/tokenizer/field.h"
#include "text/tokenizer/piece.h"
#include "text/tokenizer/regex.h"

namespace trl::text {

// GPT-2's split pattern, which ByteLevel applies unless use_regex is false.
inline constexpr const char* kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// begin, end, is_match: consecutive parts that cover the text
using PartSink = FunctionRef<void(size_t, size_t, bool)>;

class Pattern {
 public:
  virtual ~Pattern() = default;
  virtual void cut(std::string_view text, MatchSpace& space, PartSink part) const = 0;
};

std::unique_ptr<Pattern> regex_pattern(std::string_view oniguruma);
// Does the same for some patterns, faster in ASCII; nullptr: the pattern is not one of them.
std::unique_ptr<Pattern> ascii_pattern(std::string_view oniguruma);
std::unique_ptr<Pattern> literal_pattern(std::string literal);
std::unique_ptr<Pattern> character_pattern(bool (*matches)(char32_t));
std::unique_ptr<Pattern> read_pattern(const Field& field);  // {"Regex": ...} or {"String": ...}

}  // namespace trl::text
