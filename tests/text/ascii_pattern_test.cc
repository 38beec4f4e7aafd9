// Patterns by hand cut every text as their regex does.
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <vector>

#include "text/tokenizer/pattern.h"
#include "text/tokenizer/settings.h"

namespace trl::text {
namespace {

using Parts = std::vector<std::string>;

Parts parts_of(const Pattern& pattern, const std::string& text) {
  Parts parts;
  MatchSpace space;
  pattern(text, space, [&](size_t begin, size_t end, bool match) {
    parts.push_back((match ? "+" : "-") + text.substr(begin, end - begin));
  });
  return parts;
}

TEST(AsciiPattern, CutsWords) {
  const std::string text = "It's 12  apples, \n don't\tgo ";
  EXPECT_EQ(parts_of(ascii_pattern(kGpt2Pattern), text), (Parts{"+It", "+'s", "+ 12", "+ ", "+ apples", "+,",
                                                                "+ \n", "+ don", "+'t", "+\t", "+go", "+ "}));
  EXPECT_EQ(
      parts_of(ascii_pattern(kQwen2Split), text),
      (Parts{"+It", "+'s", "+ ", "+1", "+2", "+ ", "+ apples", "+,", "+ \n", "+ don", "+'t", "+\tgo", "+ "}));
  EXPECT_EQ(parts_of(ascii_pattern(kGpt2Pattern), ""), Parts{});
  EXPECT_FALSE(ascii_pattern("\\s+"));
}

TEST(AsciiPattern, IsTheRegex) {
  constexpr std::array<const char*, 43> kPieces = {
      " ",    "  ",     "\n",         "\t",      "\r",      "\v",     "\f",     "\x1C",   "\x1F",
      "\x7F", "\r\n",   "'",          "'s",      "'t",      "'re",    "'Ve",    "'m",     "'lL",
      "'d",   "'S",     "'l",         "'\u017F", "a",       "Zed",    "0",      "42",     "1234",
      ".",    "_$%",    "~",          "é",       "e\u0301", "\u00A0", "\u0085", "\u2003", "\u3000",
      "二",   "\u00B2", "\U0001F44D", "\u200D",  "\u0660",  "\u2028", "\x01"};
  for (const char* pattern : {kGpt2Pattern, kLlama3Split, kQwen2Split, kQwen35Split}) {
    const auto fast = ascii_pattern(pattern);
    const auto slow = regex_pattern(pattern);
    std::mt19937 random(7);
    for (int round = 0; round < 20000; ++round) {
      std::string text;
      for (size_t pieces = random() % 8; pieces > 0; --pieces) text += kPieces[random() % kPieces.size()];
      ASSERT_EQ(parts_of(fast, text), parts_of(slow, text)) << pattern << "\n" << text;
    }
  }
}

}  // namespace
}  // namespace trl::text
