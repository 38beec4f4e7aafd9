#include "cli/token_lines.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "cli/output.h"

namespace trl::cli {

namespace {
// NO_COLOR: no-color.org
bool coloured() { return isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr; }
}  // namespace

void print_token(int32_t id, std::optional<bool> trained, const std::string& text) {
  constexpr const char* kTrained = "\033[32m";
  constexpr const char* kOther = "\033[2m";
  constexpr const char* kText = "\033[36m";
  static const bool colours = coloured();
  const std::string quoted = nlohmann::json(text).dump();
  const std::string mark = trained ? (*trained ? "trained\t" : "-\t") : "";
  if (!colours) {
    print(fmt::format("{}\t{}{}\n", id, mark, quoted));
  } else {
    print(fmt::format("{}\t{}{}{}\033[0m\n", id, trained ? (*trained ? kTrained : kOther) : kText, mark,
                      quoted));
  }
}

}  // namespace trl::cli
