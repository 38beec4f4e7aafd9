// Metaspace as a step of its own (newer files of the Llama and Mistral families), byte fallback, and text
// that comes token by token. Expected values are those of `tokenizers` 0.23.3.
#include <gtest/gtest.h>

#include "support/golden.h"
#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer_tiny.h"

namespace trl::text {
namespace {
using namespace tiny;

// The recorded tokenizer, its normalizer replaced by Metaspace.
Json with_metaspace(const Json& metaspace) {
  Json json = test::golden_json("tokenizers/spm_style_bpe/tokenizer.json");
  json["normalizer"] = nullptr;
  json["pre_tokenizer"] = json["decoder"] = metaspace;
  return json;
}
Json metaspace(const std::string& scheme, bool split) {
  return {
      {"type", "Metaspace"}, {"replacement", "\xE2\x96\x81"}, {"prepend_scheme", scheme}, {"split", split}};
}

struct RecordedCase {
  std::string text;
  Ids ids;
  Offsets offsets;
  std::string decoded;
};

std::vector<RecordedCase> cases(const std::string& scheme) {
  const bool always = scheme == "always", never = scheme == "never";
  std::vector<RecordedCase> all = {
      {"  two  spaces",
       {355, 372, 323, 315, 355, 378, 316, 471, 386},
       {{0, 1}, {1, 3}, {3, 4}, {4, 5}, {5, 6}, {6, 8}, {8, 9}, {9, 11}, {11, 13}},
       never ? "  two  spaces" : " two  spaces"},
      {"\xE2\x96\x81x y", {779, 355, 325}, {{0, 4}, {4, 5}, {5, 6}}, never ? " x y" : "x y"},
      {"a<s>b c<start_of_turn> d",
       {never ? 302 : 648, 1, always ? 383 : 303, 391, 4, 382},
       {{0, 1}, {1, 4}, {4, 5}, {5, 7}, {7, 22}, {22, 24}},
       always ? "a<s> b c<start_of_turn> d" : "a<s>b c<start_of_turn> d"},
      {"<s>a b", {1, always ? 648 : 302, 383}, {{0, 3}, {3, 4}, {4, 6}}, always ? "<s> a b" : "<s>a b"},
      {"\xE6\x97\xA5 \xE6\x9C\xAC",
       {never ? 361 : 713, 355, 362},
       {{0, 3}, {3, 4}, {4, 7}},
       "\xE6\x97\xA5 \xE6\x9C\xAC"},
      {"", {}, {}, ""}};
  return all;
}

TEST(TokenizerMetaspace, PrependsByItsScheme) {
  TRL_NEED_GOLDEN("tokenizers/spm_style_bpe/tokenizer.json");
  for (const std::string scheme : {"always", "first", "never"}) {
    for (const bool split : {true, false}) {
      const auto tokenizer = open(with_metaspace(metaspace(scheme, split)));
      for (const RecordedCase& c : cases(scheme)) {
        SCOPED_TRACE(fmt::format("{} {} '{}'", scheme, split, c.text));
        const Encoding encoding = tokenizer->encode_with_offsets(c.text, false);
        EXPECT_EQ(encoding.ids, c.ids);
        EXPECT_EQ(encoding.offsets, c.offsets);
        EXPECT_EQ(tokenizer->encode(c.text, false), c.ids);
        EXPECT_EQ(tokenizer->decode(c.ids, false), c.decoded);
        DecodeStream stream(*tokenizer, false);
        std::string text;
        for (const int32_t id : c.ids) text += stream.step(id);
        EXPECT_EQ(text + stream.finish(), c.decoded);
      }
    }
  }
}

TEST(TokenizerMetaspace, RefusesByName) {
  TRL_NEED_GOLDEN("tokenizers/spm_style_bpe/tokenizer.json");
  const auto refused = [](const char* key, const Json& value) {
    Json step = metaspace("always", true);
    step[key] = value;
    return error_of([&] { open(with_metaspace(step)); }).message();
  };
  EXPECT_NE(
      refused("prepend_scheme", "last").find("prepend_scheme: 'last' is not one of always, first, never"),
      std::string::npos);
  EXPECT_NE(refused("replacement", "ab").find("replacement: 'ab' instead of one character"),
            std::string::npos);
  EXPECT_NE(refused("add_prefix_space", false).find("'add_prefix_space' is false where"), std::string::npos);
}

// A step never ends within a character, and only the space before the whole text is stripped.
TEST(TokenizerMetaspace, StreamsWholeCharacters) {
  TRL_NEED_GOLDEN("tokenizers/spm_style_bpe/tokenizer.json");
  const auto tokenizer = open(test::golden_json("tokenizers/spm_style_bpe/tokenizer.json"));
  const std::string text = "a \xF0\x9F\x91\x8D\xF0\x9F\x8F\xBD <s> b";
  const Ids ids = tokenizer->encode(text, false);
  DecodeStream stream(*tokenizer, true);
  std::vector<std::string> steps;
  for (const int32_t id : ids) {
    if (std::string step = stream.step(id); !step.empty()) steps.push_back(step);
  }
  EXPECT_EQ(steps,
            (std::vector<std::string>{"a", " ", "\xF0\x9F\x91\x8D", "\xF0\x9F\x8F\xBD", " ", " ", " b"}));
  EXPECT_EQ(stream.finish(), "");
  const Ids cut(ids.begin(), ids.begin() + 5);  // ends within the first emoji
  DecodeStream shorter(*tokenizer, true);
  std::string whole;
  for (const int32_t id : cut) whole += shorter.step(id);
  EXPECT_EQ(whole, "a ");
  EXPECT_EQ(shorter.finish(), "\xEF\xBF\xBD");
}

}  // namespace
}  // namespace trl::text
