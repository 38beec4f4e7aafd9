// Template text -> tokens, with Jinja's white-space rules under trim_blocks and lstrip_blocks.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trl::text::jinja {

enum class TokenType : uint8_t {
  data,
  variable_begin,
  variable_end,
  block_begin,
  block_end,
  name,
  text,
  integer,
  real,
  symbol,
  end
};

struct Token {
  TokenType type;
  int line;
  std::string value;  // data, name, decoded string, number's digits, or the operator
};

// Throws Error(format): "chat template, line 3: ...".
std::vector<Token> tokenize(std::string_view source);
std::string describe(const Token& token);
[[noreturn]] void fail_at(int line, std::string_view message);

}  // namespace trl::text::jinja
