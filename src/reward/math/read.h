// Finds the answer within a text as math_verify 0.9 does when TRL's rewards call it.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "reward/math/node.h"

namespace trl::reward::math {

struct Reading {
  std::optional<Node> value;  // nothing: the grammar cannot read the text
  // Cleaned LaTeX, or a number. Empty for a solution such as \frac12 that is read although it lacks braces.
  std::string text;
};

// Both read no more than 2 KB of an answer, so that no text takes long.

// Looks for "the final answer is ... I hope", "final answer ... is ..." and \boxed{...}, "answer: ...",
// "answer ...", and any formula or number, in this order; of several the one that ends last and can be read.
// A number within a formula that cannot be read does not count. Returns nothing for a text that has none of
// them.
std::optional<Reading> read_solution(std::string_view text);

// Looks for \boxed{...} first, then for formulas (not numbers) after the same words, and for no others. The
// one that ends last counts, whether it can be read or not.
std::optional<Reading> read_completion(std::string_view text);

// Returns whether both have the same value, or the same text.
bool same_reading(const Reading& solution, const Reading& completion);

}  // namespace trl::reward::math
