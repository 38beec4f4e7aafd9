// Vocabularies of GGUF files against transformers 5.23 (model "llama") and `tokenizers` 0.23.3 with the
// patterns of llama.cpp (pre-tokenizers).
#include <gtest/gtest.h>

#include "support/golden.h"
#include "text/tokenizer/plain_vocabulary.h"
#include "text/tokenizer_tiny.h"

namespace trl::text {
namespace {
using namespace tiny;

Json model_of(const std::string& name) {
  return base::read_json_file(test::golden_path("tokenizers/" + name + "/tokenizer.json")).at("model");
}

std::vector<std::string> tokens_of(const Json& model) {
  std::vector<std::string> tokens(model.at("vocab").size());
  for (const auto& [token, id] : model.at("vocab").items()) tokens[id.get<size_t>()] = token;
  return tokens;
}

// The scores fall from token to token.
PlainVocabulary scored(const Json& recorded) {
  PlainVocabulary v;
  v.model = "llama";
  v.architecture = recorded.at("architecture");
  v.tokens = tokens_of(model_of("spm_style_bpe"));
  for (size_t i = 0; i < v.tokens.size(); ++i) {
    v.scores.push_back(-static_cast<float>(i));
    v.token_types.push_back(i == 0 ? 2 : i < 4 ? 3 : i < 6 ? 4 : v.tokens[i].starts_with("<0x") ? 6 : 1);
  }
  v.bos = 1;
  v.eos = 2;
  v.unk = 0;
  if (!recorded.at("add_bos").is_null()) v.add_bos = recorded.at("add_bos").get<bool>();
  return v;
}

TEST(TokenizerGguf, ScoresGiveWhatTransformersGives) {
  const Json all = test::golden_json("tokenizers/gguf.json");
  size_t run = 0;
  for (const Json& recorded : all.at("llama")) {
    const auto tokenizer = Tokenizer::from_vocabulary(scored(recorded), "model.gguf");
    Folder folder;
    for (const auto& [name, bytes] : tokenizer->files()) folder.put(name, bytes);
    folder.put("config.json", R"({"model_type": "llama"})");
    const auto saved = Tokenizer::from_files(folder.path());
    for (size_t i = 0; i < all.at("texts").size(); ++i, ++run) {
      const std::string text = all.at("texts")[i];
      const Ids ids = recorded.at("ids")[i];
      EXPECT_EQ(tokenizer->encode(text, true), ids) << recorded.at("architecture") << ": " << text;
      EXPECT_EQ(saved->encode(text, true), ids) << recorded.at("architecture") << ": " << text;
      EXPECT_EQ(tokenizer->decode(ids, true), recorded.at("decoded")[i].get<std::string>());
    }
    EXPECT_EQ(tokenizer->special().unk, "<unk>");
  }
  EXPECT_EQ(run, 42u);
}

TEST(TokenizerGguf, NoSpaceIsPutBeforeTheTextWhereTheFileSaysSo) {
  PlainVocabulary v = scored(test::golden_json("tokenizers/gguf.json").at("llama")[1]);
  const auto with = Tokenizer::from_vocabulary(v, "f");
  v.add_space_prefix = false;
  const auto without = Tokenizer::from_vocabulary(v, "f");
  EXPECT_EQ(with->id_to_token(with->encode("a", false)[0]),
            "\xE2\x96\x81"
            "a");
  EXPECT_EQ(without->id_to_token(without->encode("a", false)[0]), "a");
  EXPECT_EQ(without->encode(" a", false), with->encode("a", false));
  EXPECT_EQ(without->decode(without->encode("a", false), false), "a");
}

TEST(TokenizerGguf, SplitsAsThePreTokenizerSays) {
  const Json all = test::golden_json("tokenizers/gguf.json");
  const Json model = model_of("bpe_gpt2");
  PlainVocabulary v;
  v.model = "gpt2";
  v.tokens = tokens_of(model);
  for (const Json& merge : model.at("merges"))
    v.merges.push_back(merge.is_string() ? merge.get<std::string>()
                                         : merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  size_t run = 0;
  for (const auto& [pre, rows] : all.at("pre").items()) {
    v.pre = pre;
    const auto tokenizer = Tokenizer::from_vocabulary(v, "model.gguf");
    for (size_t i = 0; i < rows.size(); ++i, ++run) {
      const std::string text = all.at("texts")[i];
      EXPECT_EQ(tokenizer->encode(text, false), rows[i].get<Ids>()) << pre << ": " << text;
    }
  }
  EXPECT_EQ(run, 36u);
}

// The split of a GGUF file's kimi-k2 is that of the pattern which the model's own tokenizer has.
TEST(TokenizerGguf, SplitsAsKimiK2) {
  Json json = tiny_json();
  const Json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  const char* const regex =
      R"([\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  json["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}}, bytes}}};
  const auto own = open(json);
  json["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = find_gguf_pre("kimi-k2", "test").split[0];
  const auto theirs = open(json);
  for (const char* text : {"Hello WORLD's 12345 x",
                           "\xE4\xB8\xAD\xE6\x96\x87"
                           "abc \xE4\xB8\xAD  \n\n a/b//\n",
                           "  don't STOP?!\r\n"})
    EXPECT_EQ(own->encode(text, false), theirs->encode(text, false)) << text;
}

// [a&&b] in a pattern, as in Kimi-K2. The words are those of `tokenizers`.
TEST(TokenizerGguf, ReadsIntersectionsInPatterns) {
  const auto words = [](const std::string& regex, const std::string& text) {
    Json json = tiny_json();
    const Json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
    json["pre_tokenizer"] = {
        {"type", "Sequence"},
        {"pretokenizers",
         {{{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Removed"}}, bytes}}};
    const auto tokenizer = open(json);
    return tokenizer->decode(tokenizer->encode(text, false), false);
  };
  // What is left is what did not match.
  EXPECT_EQ(words(R"([\p{L}&&[^\p{Han}]]+)",
                  "ab\xE4\xB8\xAD\xD0\x9F"
                  "1"),
            "\xE4\xB8\xAD"
            "1");
  EXPECT_EQ(words("[a-z&&[^aeiou]]", "hello"), "eo");
  EXPECT_EQ(words("[^a-z&&[^aeiou]]", "Hello e"), "ll");
  EXPECT_EQ(words("[a-z&&b-y&&[^d-f]]", "abcdefxyz"), "adefz");
  const Error error = error_of([&] { words("[a&&]", "a"); });
  EXPECT_NE(error.message().find("an empty side of &&"), std::string::npos) << error.message();
}

}  // namespace
}  // namespace trl::text
