// A tokenizer written as a GGUF vocabulary and read back gives the same ids; what GGUF cannot say is refused.
#include <gtest/gtest.h>

#include "support/golden.h"
#include "support/warnings.h"
#include "text/tokenizer/plain_vocabulary.h"
#include "text/tokenizer_tiny.h"

namespace trl::text {
namespace {
using namespace tiny;

std::unique_ptr<Tokenizer> recorded(const std::string& name) {
  return Tokenizer::from_files(test::golden_path("tokenizers/" + name));
}

class Exported : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(Exported, GivesTheSameIds) {
  const auto [name, pre] = GetParam();
  TRL_NEED_GOLDEN(std::string("tokenizers/") + name + "/tokenizer.json");
  const auto tokenizer = recorded(name);
  const PlainVocabulary v = export_vocabulary(*tokenizer, name, nullptr);
  EXPECT_EQ(v.model, "gpt2");
  EXPECT_EQ(v.pre, pre);
  EXPECT_EQ(std::ssize(v.tokens), tokenizer->vocab_size());
  const auto again = Tokenizer::from_vocabulary(v, "m.gguf");
  size_t compared = 0;
  for (const Json& sample :
       test::golden_json(std::string("tokenizers/") + name + "/cases.json").at("cases")) {
    const std::string text = sample.at("text");
    for (const bool special : {false, true})
      ASSERT_EQ(again->encode(text, special), tokenizer->encode(text, special)) << text;
    ++compared;
  }
  EXPECT_GT(compared, 20u);
  EXPECT_EQ(again->special_tokens_map().at("eos_token"), tokenizer->special().eos);
  EXPECT_EQ(again->special().pad, tokenizer->special().pad);
}

INSTANTIATE_TEST_SUITE_P(Recorded, Exported,
                         testing::Values(std::pair{"bpe_gpt2", "gpt-2"}, std::pair{"bpe_llama3", "llama-bpe"},
                                         std::pair{"bpe_qwen2", "qwen2"}, std::pair{"bpe_digits", "smollm"}));

// SentencePiece's scores fall from merge to merge. Behind a special token in the text the two differ, which
// is said in the log: GGUF's readers mark the first space alone.
TEST(ExportVocabulary, ScoresGiveTheMergesBack) {
  TRL_NEED_GOLDEN("tokenizers/sentencepiece_bpe/tokenizer.json");
  const auto tokenizer = recorded("sentencepiece_bpe");
  test::Warnings warnings;
  const PlainVocabulary v = export_vocabulary(*tokenizer, "spm", &warnings);
  EXPECT_EQ(v.model, "llama");
  EXPECT_EQ(v.scores.size(), v.tokens.size());
  EXPECT_TRUE(v.merges.empty());
  EXPECT_EQ(v.add_bos, true);
  ASSERT_EQ(warnings.lines.size(), 1u);
  EXPECT_EQ(
      warnings.lines[0],
      "spm: this tokenizer puts a space before every text and behind every special token in it, as llama.cpp "
      "does; transformers, and this library, put one before a text alone that does not begin with one when "
      "they read a GGUF file");
  const auto again = Tokenizer::from_vocabulary(v, "m.gguf");
  size_t compared = 0;
  for (const Json& sample : test::golden_json("tokenizers/sentencepiece_bpe/cases.json").at("cases")) {
    const std::string text = sample.at("text");
    if (text.find('<') != text.npos || text.starts_with(' ') || text.starts_with("\xE2\x96\x81")) continue;
    ASSERT_EQ(again->encode(text, true), tokenizer->encode(text, true)) << text;
    ++compared;
  }
  EXPECT_GT(compared, 100u);
}

// Gemma's steps: marks of spaces and none before the text, which its class splits at spaces in addition. Runs
// of spaces and lines are added tokens, and the first merges.
Json gemma_json() {
  Json json = test::golden_json("tokenizers/sentencepiece_bpe/tokenizer.json");
  json["normalizer"] = json["normalizer"]["normalizers"][1];
  json["pre_tokenizer"] = {{"type", "Split"},
                           {"pattern", {{"String", " "}}},
                           {"behavior", "MergedWithPrevious"},
                           {"invert", false}};
  json["decoder"]["decoders"].erase(3);
  Json& model = json["model"];
  const std::string mark = "\xE2\x96\x81";
  const std::vector<std::string> runs = {"\n", "\n\n", mark + mark, mark + mark + mark};
  int id = static_cast<int>(model["vocab"].size());
  for (const std::string& run : runs) {
    model["vocab"][run] = id;
    json["added_tokens"].push_back(added(id++, run));
  }
  Json merges = Json::array();
  for (const auto& [left, right] : {std::pair{runs[0], runs[0]}, std::pair{mark, mark},
                                    std::pair{runs[2], mark}, std::pair{mark, runs[2]}})
    merges.push_back(Json::array({left, right}));
  for (const Json& merge : model["merges"]) merges.push_back(merge);
  model["merges"] = merges;
  return json;
}

TEST(ExportVocabulary, GemmaHasItsRunsOfSpacesAsTheyStandInTheText) {
  TRL_NEED_GOLDEN("tokenizers/sentencepiece_bpe/tokenizer.json");
  Folder folder;
  folder.put("tokenizer.json", gemma_json().dump());
  folder.put("tokenizer_config.json", R"({"bos_token": "<s>", "unk_token": "<unk>"})");
  const auto tokenizer = Tokenizer::from_files(folder.path());
  test::Warnings warnings;
  PlainVocabulary v = export_vocabulary(*tokenizer, "gemma", &warnings);
  EXPECT_TRUE(warnings.lines.empty());
  EXPECT_EQ(v.model, "llama");
  EXPECT_FALSE(v.add_space_prefix);
  EXPECT_EQ(v.tokens.back(), "   ");
  EXPECT_EQ(v.token_types.back(), 4);
  v.architecture = "gemma2";
  const auto again = Tokenizer::from_vocabulary(v, "m.gguf");
  for (const char* text :
       {"a  b", "the   end\n\nof\nit", "  then   this", " one", "caf\xC3\xA9 \xE4\xBD\xA0"}) {
    EXPECT_EQ(again->encode(text, true), tokenizer->encode(text, true)) << text;
    EXPECT_EQ(again->decode(again->encode(text, false), false), text);
  }
  EXPECT_EQ(again->decode(again->encode(" x", false), false), " x");
}

class Edited : public testing::Test {
 protected:
  std::string message(Json json, const Json& config = Json::object()) {
    Folder folder;
    folder.put("tokenizer.json", json.dump());
    folder.put("tokenizer_config.json", config.dump());
    try {
      export_vocabulary(*Tokenizer::from_files(folder.path()), "here", nullptr);
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::unsupported);
      return error.message();
    }
    return "exported";
  }
};

TEST_F(Edited, WhatGgufCannotSayIsRefusedByName) {
  Json json = tiny_json();
  EXPECT_EQ(message(json), "exported");
  json["pre_tokenizer"]["add_prefix_space"] = true;
  const std::string unknown = message(json);
  EXPECT_TRUE(
      unknown.starts_with("here: this build knows no llama.cpp name for this tokenizer: "
                          "normalizer null, pre_tokenizer {\"add_prefix_space\":true,"))
      << unknown;
  EXPECT_NE(unknown.find("names are known for default, gpt-2, mpt, "), unknown.npos) << unknown;
  json = tiny_json();
  json["normalizer"] = {{"type", "Lowercase"}};
  EXPECT_NE(message(json).find("normalizer {\"type\":\"Lowercase\"}"), std::string::npos);
  json = tiny_json();
  json["added_tokens"] = {{{"id", 265}, {"content", "<a>"}, {"special", true}}};
  const Json special = {{"SpecialToken", {{"id", "<a>"}, {"type_id", 0}}}};
  const Json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  json["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single", {special, special, text}},
      {"pair", {special, special, text}},
      {"special_tokens", {{"<a>", {{"id", "<a>"}, {"ids", {265}}, {"tokens", {"<a>"}}}}}}};
  EXPECT_EQ(
      message(json),
      "here: the tokenizer's post_processor puts other tokens around a text than BOS and EOS, which are "
      "all that GGUF files can have");
}

// o200k's words, as its tokenizer.json has them.
TEST(ExportVocabulary, KnowsThePatternOfO200k) {
  Json json = tiny_json();
  const std::string large = "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]", small = "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]",
                    before = "[^\\r\\n\\p{L}\\p{N}]?", end = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?";
  const std::string pattern = before + large + "*" + small + "+" + end + "|" + before + large + "+" + small +
                              "*" + end +
                              "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
  Json bytes = byte_level();
  bytes["use_regex"] = false;
  json["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Removed"}, {"invert", true}},
        bytes}}};
  Folder folder;
  folder.put("tokenizer.json", json.dump());
  const auto tokenizer = Tokenizer::from_files(folder.path());
  const PlainVocabulary v = export_vocabulary(*tokenizer, "here", nullptr);
  EXPECT_EQ(v.pre, "gpt-4o");
  const auto again = Tokenizer::from_vocabulary(v, "m.gguf");
  for (const char* text : {"HelloWorld hellO's  12345 \xC3\x89t\xC3\xA9/\n\n x", "the THE'LL the"})
    EXPECT_EQ(again->encode(text, false), tokenizer->encode(text, false)) << text;
}

// SentencePiece joins parts by the score of what they make: a token made early in one order of merges and
// late in another has no score. Then the merges go along, and llama.cpp, which does not read them, is named.
TEST_F(Edited, MergesWithoutScoresGoAlongAndAreWarnedOf) {
  TRL_NEED_GOLDEN("tokenizers/sentencepiece_bpe/tokenizer.json");
  Json json = test::golden_json("tokenizers/sentencepiece_bpe/tokenizer.json");
  EXPECT_EQ(message(json), "exported");
  Folder folder;
  folder.put("tokenizer.json", json.dump());
  EXPECT_TRUE(export_vocabulary(*Tokenizer::from_files(folder.path()), "here", nullptr).merges.empty());

  Json& merges = json["model"]["merges"];
  merges.erase(merges.size() - 1);
  folder.put("tokenizer.json", json.dump());
  const auto tokenizer = Tokenizer::from_files(folder.path());
  test::Warnings log;
  const PlainVocabulary v = export_vocabulary(*tokenizer, "here", &log);
  ASSERT_FALSE(log.lines.empty());
  EXPECT_NE(log.lines.back().find("some texts get other token ids there"), std::string::npos)
      << log.lines.back();
  EXPECT_EQ(v.merges.size(), merges.size());
  const auto again = Tokenizer::from_vocabulary(v, "m.gguf");
  for (const char* text : {"the weather in the north", "there and here again", "a river runs through it"})
    EXPECT_EQ(again->encode(text, false), tokenizer->encode(text, false)) << text;
}

}  // namespace
}  // namespace trl::text
