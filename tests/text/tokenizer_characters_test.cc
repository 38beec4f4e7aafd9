// Characters that the tables of PCRE2 10.42 and utf8proc 2.8 have otherwise than those that `tokenizers`
// 0.23.3 asks. The expected values are its own.
#include <gtest/gtest.h>

#include "text/tokenizer_tiny.h"

namespace trl::text {
namespace {
using namespace tiny;

std::string utf8(std::initializer_list<char32_t> characters) {
  std::string text;
  for (const char32_t c : characters) base::append_utf8(text, c);
  return text;
}

// The text after the steps, each of which may take some of it away.
std::string left(const Json& normalizer, Json steps, const std::string& text) {
  steps.push_back({{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}});
  Json json = tiny_json();
  json["normalizer"] = normalizer;
  json["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", std::move(steps)}};
  const auto tokenizer = open(json);
  return tokenizer->decode(tokenizer->encode(text, false), false);
}
Json remove(const char* regex) {
  return {{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Removed"}};
}

TEST(TokenizerCharacters, PropertiesKnowUnicode16) {
  const std::pair<const char*, char32_t> newer[] = {
      {"\\d", 0x10D40},           {"[\\d]", 0x11F50},         {"\\p{Nd}", 0x1E5F1},
      {"\\w", 0x2EBF0},           {"[\\w]", 0x1123F},         {"\\p{L}", 0x1C89},
      {"\\p{Lu}", 0x1C89},        {"\\p{Ll}", 0x1C8A},        {"\\p{Lm}", 0x1E030},
      {"\\p{Lo}", 0x11F02},       {"\\p{Mn}", 0xECE},         {"\\p{Mc}", 0x1171E},
      {"\\p{No}", 0x1D2C0},       {"\\p{P}", 0x1B4E},         {"\\p{Po}", 0x11F43},
      {"\\p{Pd}", 0x10D6E},       {"\\p{S}", 0x1F6DC},        {"\\p{So}", 0x31EF},
      {"\\p{Sm}", 0x10D8E},       {"\\p{Cf}", 0x13439},       {"\\p{Han}", 0x31350},
      {"\\p{Hiragana}", 0x1B132}, {"\\p{Cyrillic}", 0x1E08F}, {"[[:alpha:]]", 0x363},
      {"[[:lower:]]", 0x10FC},    {"[[:digit:]]", 0x1CCF0},   {"[[:alnum:]]", 0x16130},
      {"[[:upper:]]", 0x10D50}};
  for (const auto& [regex, c] : newer)
    EXPECT_EQ(left(nullptr, {remove(regex)}, utf8({0x2028, c, 0x2028})), utf8({0x2028, 0x2028})) << regex;
  for (const auto& [regex, c] : {std::pair{"\\D", 0x10D40}, {"\\W", 0x2EBF0}, {"[^\\w]", 0x1123F}})
    EXPECT_EQ(left(nullptr, {remove(regex)}, utf8({' ', char32_t(c)})), utf8({char32_t(c)})) << regex;
}

TEST(TokenizerCharacters, DigitsKnowUnicode17) {
  for (const char32_t c : {0x116D0, 0x11DE0, 0x16FF4, 0x1CCF0, 0xB2})
    EXPECT_EQ(left(nullptr, {{{"type", "Digits"}, {"individual_digits", true}}, remove("^.$")},
                   utf8({'a', c, 'b'})),
              "");
}

TEST(TokenizerCharacters, LowercaseKnowsUnicode17) {
  const std::pair<char32_t, char32_t> pairs[] = {
      {0x1C89, 0x1C8A},   {0xA7CB, 0x264},    {0xA7CC, 0xA7CD}, {0xA7CE, 0xA7CF},   {0xA7D2, 0xA7D3},
      {0xA7D4, 0xA7D5},   {0xA7DA, 0xA7DB},   {0xA7DC, 0x19B},  {0x10D50, 0x10D70}, {0x10D65, 0x10D85},
      {0x16EA0, 0x16EBB}, {0x16EB8, 0x16ED3}, {0xC9, 0xE9}};
  for (const auto& [upper, lower] : pairs)
    EXPECT_EQ(left({{"type", "Lowercase"}}, Json::array(), utf8({upper})), utf8({lower}));
}

TEST(TokenizerCharacters, PunctuationIsThatOfUnicode8) {
  const Json step = {{"type", "Punctuation"}, {"behavior", "Removed"}};
  EXPECT_EQ(left(nullptr, {step}, utf8({'a', 0x166D, 0x111C9, '!', 0x3002})), "a");
  const std::string later = utf8({0x61D, 0x9FD, 0x2E43, 0x2E5D, 0x11F43, 0x1E95E});
  EXPECT_EQ(left(nullptr, {step}, later), later);
}

}  // namespace
}  // namespace trl::text
