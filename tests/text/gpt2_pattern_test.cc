// GPT-2's pattern by hand cuts every text as the regex does.
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <vector>

#include "text/tokenizer/pattern.h"

namespace trl::text {
namespace {

using Parts = std::vector<std::string>;

Parts parts_of(const Pattern& pattern, const std::string& text) {
  Parts parts;
  MatchSpace space;
  pattern.cut(text, space, [&](size_t begin, size_t end, bool match) {
    parts.push_back((match ? "+" : "-") + text.substr(begin, end - begin));
  });
  return parts;
}

TEST(Gpt2Pattern, CutsWords) {
  EXPECT_EQ(
      parts_of(*gpt2_pattern(), "It's 12  apples, \n don't\tgo "),
      (Parts{"+It", "+'s", "+ 12", "+ ", "+ apples", "+,", "+ \n", "+ don", "+'t", "+\t", "+go", "+ "}));
  EXPECT_EQ(parts_of(*gpt2_pattern(), ""), Parts{});
}

TEST(Gpt2Pattern, IsTheRegex) {
  constexpr std::array<const char*, 38> kPieces = {
      " ",      "  ",     "\n", "\t",     "\r",         "\v",     "\f",     "\x1C",    "\x1F",   "\x7F",
      "'",      "'s",     "'t", "'re",    "'ve",        "'m",     "'ll",    "'d",      "'S",     "a",
      "Zed",    "0",      "42", ".",      "_$%",        "~",      "é",      "e\u0301", "\u00A0", "\u0085",
      "\u2003", "\u3000", "二", "\u00B2", "\U0001F44D", "\u200D", "\u0660", "\u2028"};
  const auto fast = gpt2_pattern();
  const auto slow = regex_pattern(kGpt2Pattern);
  std::mt19937 random(7);
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (size_t pieces = random() % 8; pieces > 0; --pieces) text += kPieces[random() % kPieces.size()];
    ASSERT_EQ(parts_of(*fast, text), parts_of(*slow, text)) << text;
  }
}

}  // namespace
}  // namespace trl::text
