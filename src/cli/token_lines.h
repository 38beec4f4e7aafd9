// Prints tokens as lines: the id, whether it is trained on, its piece and its text as JSON; coloured on a
// terminal.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace trl::cli {

struct TokenLine {
  int32_t id;
  std::optional<bool> trained;  // nullopt if nothing is trained
  std::string piece;            // as in the vocabulary
  std::string text;             // its part of the text
};
void print_token(const TokenLine& token);

}  // namespace trl::cli
