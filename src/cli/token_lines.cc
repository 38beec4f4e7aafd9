#include "cli/token_lines.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "cli/output.h"

namespace trl::cli {

namespace {
// Returns whether to colour; NO_COLOR: no-color.org
bool coloured() { return isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr; }
}  // namespace

void print_token(const TokenLine& token) {
  constexpr const char* kTrained = "\033[32m";
  constexpr const char* kOther = "\033[2m";
  constexpr const char* kPiece = "\033[36m";
  static const bool colours = coloured();
  const bool trained = token.trained.value_or(false);
  const char* const colour = token.trained ? (trained ? kTrained : kOther) : kPiece;
  print(fmt::format("{}\t{}{}{}{}\t{}\n", token.id, colours ? colour : "",
                    token.trained ? (trained ? "trained\t" : "-\t") : "", nlohmann::json(token.piece).dump(),
                    colours ? "\033[0m" : "", nlohmann::json(token.text).dump()));
}

}  // namespace trl::cli
