// LaTeX as tokens: spaces are gone, symbols have one spelling.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace trl::reward::math {

enum class TokenType {
  end,
  number,
  letter,
  command,  // text: the name without its backslash; Unicode letters and signs too: pi for U+03C0
  word,     // \text{...}; text: the content without spaces and parentheses
  accent,   // \overline{...} and the like; text: its name, word: the content
  sign,     // one character, \{ or \} or "\\" (a line end)
  unknown,
};

struct Token {
  TokenType type = TokenType::end;
  std::string_view text = {};
  std::string word = {};
  bool is(TokenType of, std::string_view name) const { return type == of && text == name; }
};

// Returns the tokens with one of type end at the end. They point into latex.
std::vector<Token> tokens_of(std::string_view latex);

}  // namespace trl::reward::math
