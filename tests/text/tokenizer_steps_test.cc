// Each kind of step on a tokenizer that one can follow by eye; the expected values are those of `tokenizers`
// 0.23.
#include <gtest/gtest.h>

#include "text/tokenizer_tiny.h"

namespace trl::text {
namespace {
using namespace tiny;

void expect(const Tokenizer& tokenizer, const std::string& text, const Ids& ids, const Offsets& offsets) {
  const Encoding encoding = tokenizer.encode_with_offsets(text, true);
  EXPECT_EQ(encoding.ids, ids) << text;
  EXPECT_EQ(encoding.offsets, offsets) << text;
  EXPECT_EQ(tokenizer.encode(text, true), ids) << text;
}

TEST(TokenizerSteps, MergesByRankWithinWords) {
  expect(*open(tiny_json()), "hello wé  the", {259, 260, 261, 32, 32, 116, 256},
         {{0, 5}, {5, 7}, {7, 9}, {9, 10}, {10, 11}, {11, 12}, {12, 14}});
}

TEST(TokenizerSteps, GivesWholeCodePointsAsOffsetsOfBytes) {
  expect(*open(tiny_json()),
         "a\xF0\x9F\x91\x8D"
         "dé",
         {97, 240, 159, 145, 141, 100, 261}, {{0, 1}, {1, 5}, {1, 5}, {1, 5}, {1, 5}, {5, 6}, {6, 8}});
}

TEST(TokenizerSteps, ReadsMergesAsPairsToo) {
  Json json = tiny_json();
  json["model"]["merges"] = Json::array({Json::array({"h", "e"}), Json::array({"l", "l"})});
  EXPECT_EQ(open(json)->encode("hello", false), (Ids{256, 257, 111}));
}

TEST(TokenizerSteps, IgnoresMergesForWordsOfTheVocabulary) {
  Json json = tiny_json();
  json["model"]["merges"] = Json::array();
  json["model"]["ignore_merges"] = true;
  EXPECT_EQ(open(json)->encode("hello the he", false), (Ids{259, 32, 116, 104, 101, 32, 104, 101}));
}

TEST(TokenizerSteps, DropsAWordWhoseCharactersAreUnknown) {
  Json json = tiny_json();
  json["pre_tokenizer"] = json["decoder"] = nullptr;
  json["model"] = {{"type", "BPE"}, {"vocab", {{"ab", 0}, {"c", 1}}}, {"merges", Json::array()}};
  const auto tokenizer = open(json);
  expect(*tokenizer, "ab", {}, {});
  expect(*tokenizer, "abc", {1}, {{0, 1}});
  json["model"]["ignore_merges"] = true;
  expect(*open(json), "ab", {0}, {{0, 2}});
}

TEST(TokenizerSteps, FindsAddedTokensAroundWhitespace) {
  const auto with = [](const std::string& flag) {
    Json json = tiny_json();
    json["added_tokens"].push_back(added(265, "<x>", flag));
    return open(json);
  };
  const std::string text = "the <x> a<x>b";
  expect(*with(""), text, {116, 256, 32, 265, 32, 97, 265, 98},
         {{0, 1}, {1, 3}, {3, 4}, {4, 7}, {7, 8}, {8, 9}, {9, 12}, {12, 13}});
  expect(*with("lstrip"), text, {116, 256, 265, 32, 97, 265, 98},
         {{0, 1}, {1, 3}, {3, 7}, {7, 8}, {8, 9}, {9, 12}, {12, 13}});
  expect(*with("rstrip"), text, {116, 256, 32, 265, 97, 265, 98},
         {{0, 1}, {1, 3}, {3, 4}, {4, 8}, {8, 9}, {9, 12}, {12, 13}});
  EXPECT_EQ(with("single_word")->encode(text, false), (Ids{116, 256, 32, 265, 32, 97, 60, 120, 62, 98}));
  const auto special = with("special");
  EXPECT_EQ(special->decode(special->encode(text, false), true), "the  ab");
  EXPECT_EQ(special->decode(special->encode(text, false), false), text);
}

TEST(TokenizerSteps, TakesTheLeftmostAndThenTheLongestAddedToken) {
  Json json = tiny_json();
  json["added_tokens"] = {added(265, "<x"), added(266, "<x>"), added(267, "x>y")};
  expect(*open(json), "<x>y <xx>y", {266, 121, 32, 265, 267}, {{0, 3}, {3, 4}, {4, 5}, {5, 7}, {7, 10}});
}

TEST(TokenizerSteps, SurvivesTokensThatTakeEachOthersWhitespace) {
  Json json = tiny_json();
  json["added_tokens"] = {added(265, "<x>", "rstrip"), added(266, "  ", "lstrip")};
  EXPECT_EQ(open(json)->encode("<x>   <x>", false), (Ids{265, 265}));
}

TEST(TokenizerSteps, LooksForNormalizedTokensInTheNormalizedText) {
  Json json = tiny_json();
  json["normalizer"] = {{"type", "Lowercase"}};
  json["added_tokens"] = {added(265, "The", "normalized"), added(266, "HE")};
  expect(*open(json), "THE the HE he", {116, 266, 32, 265, 32, 266, 32, 256},
         {{0, 1}, {1, 3}, {3, 4}, {4, 7}, {7, 8}, {8, 10}, {10, 11}, {11, 13}});
}

TEST(TokenizerSteps, ComposesAndKeepsTheOriginOfTheFirstPart) {
  Json json = tiny_json();
  json["normalizer"] = {{"type", "NFC"}};
  expect(*open(json),
         "e\xCC\x81"
         "e\xCC\x81x",
         {261, 261, 120}, {{0, 1}, {3, 4}, {6, 7}});
}

TEST(TokenizerSteps, TrimsOffsets) {
  Json json = tiny_json();
  json["post_processor"] = byte_level();
  expect(*open(json), " w  hello ", {260, 32, 32, 259, 32}, {{1, 2}, {3, 3}, {4, 4}, {4, 9}, {10, 10}});
}

TEST(TokenizerSteps, PutsSpecialTokensAround) {
  Json json = tiny_json();
  json["added_tokens"] = {added(265, "<x>", "special")};
  const Json special = {{"SpecialToken", {{"id", "B"}, {"type_id", 0}}}};
  json["post_processor"] = {{"type", "TemplateProcessing"},
                            {"single", {special, {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}, special}},
                            {"pair", Json::array()},
                            {"special_tokens", {{"B", {{"id", "B"}, {"ids", {265}}, {"tokens", {"<x>"}}}}}}};
  const auto tokenizer = open(json);
  expect(*tokenizer, "he<x>", {265, 256, 265, 265}, {{0, 0}, {0, 2}, {2, 5}, {0, 0}});
  EXPECT_EQ(tokenizer->encode("he<x>", false), (Ids{256, 265}));
  EXPECT_EQ(tokenizer->encode("", true), (Ids{265, 265}));
}

// Pieces show as runs of merges: a token per byte keeps "-" and letters apart only by the cuts.
TEST(TokenizerSteps, CutsInEachBehavior) {
  struct Case {
    const char* behavior;
    bool invert;
    Ids ids;
  };
  // "th-ethe": merges never cross a cut, so the ids tell where the cuts are.
  const std::vector<Case> cases = {{"Removed", false, {263, 116, 256}},
                                   {"Removed", true, {101}},
                                   {"Isolated", false, {263, 101, 116, 256}},
                                   {"MergedWithPrevious", false, {116, 256, 116, 256}},
                                   {"MergedWithNext", false, {263, 101, 116, 256}},
                                   {"Contiguous", false, {263, 101, 116, 256}}};
  for (const Case& c : cases) {
    Json json = tiny_json();
    const Json split = {{"type", "Split"},
                        {"pattern", {{"Regex", "(?<=h)e(?=t)"}}},
                        {"behavior", c.behavior},
                        {"invert", c.invert}};
    Json bytes = byte_level();
    bytes["use_regex"] = false;
    json["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {split, bytes}}};
    EXPECT_EQ(open(json)->encode("thethe", false), c.ids) << c.behavior << c.invert;
  }
}

TEST(TokenizerSteps, CutsDigitsAndAddsThePrefixSpace) {
  Json json = tiny_json();
  json["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers", {{{"type", "Digits"}, {"individual_digits", true}}, byte_level()}}};
  expect(*open(json), " 12he", {32, 49, 50, 256}, {{0, 1}, {1, 2}, {2, 3}, {3, 5}});
  json["pre_tokenizer"] = byte_level(true);
  const auto tokenizer = open(json);
  expect(*tokenizer, "we", {260, 101}, {{0, 1}, {1, 2}});
  EXPECT_EQ(tokenizer->decode(Ids{260, 101}, false), " we");
}

TEST(TokenizerSteps, DecodesBytesAndAddedTokens) {
  Json json = tiny_json();
  json["added_tokens"] = {added(265, "a b")};
  const auto tokenizer = open(json);
  const Ids ids{265, 0xC3, 0xA9, 0xE2, 0x82};
  EXPECT_EQ(tokenizer->decode(ids, false), "a b\xC3\xA9\xEF\xBF\xBD");
  EXPECT_EQ(tokenizer->decode_bytes(ids, false, false), "a b\xC3\xA9\xE2\x82");
}

TEST(TokenizerSteps, LooksTokensUp) {
  Json json = tiny_json();
  json["added_tokens"] = {added(265, "<x>")};
  const auto tokenizer = open(json);
  EXPECT_EQ(tokenizer->vocab_size(), 266);
  EXPECT_EQ(tokenizer->token_to_id("<x>"), 265);
  EXPECT_EQ(tokenizer->token_to_id("hello"), 259);
  EXPECT_EQ(tokenizer->token_to_id("nothing"), std::nullopt);
  EXPECT_EQ(tokenizer->id_to_token(265), "<x>");
  EXPECT_EQ(tokenizer->id_to_token(260), byte_character(' ') + "w");
  EXPECT_EQ(tokenizer->id_to_token(266), std::nullopt);
  EXPECT_EQ(tokenizer->id_to_token(-1), std::nullopt);
}

}  // namespace
}  // namespace trl::text
