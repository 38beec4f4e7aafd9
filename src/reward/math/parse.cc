#include "reward/math/parse.h"

#include "reward/math/parser.h"

namespace trl::reward::math {

std::optional<Node> parse(std::string_view clean, Dialect dialect) {
  if (clean.empty() || clean.size() > kMaxAnswer) return std::nullopt;
  try {
    return Parser(clean, dialect).answer();
  } catch (const Unreadable&) {
    return std::nullopt;
  }
}

}  // namespace trl::reward::math
