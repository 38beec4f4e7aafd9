// Steps that replace a recorded tokenizer's own: every normalizer, pre-tokenizer, post-processor and
// decoder, with what each can be told.
#include <gtest/gtest.h>

#include "support/golden.h"
#include "text/tokenizer_tiny.h"

namespace trl::text {
namespace {

class TokenizerVariants : public testing::TestWithParam<std::string> {};

TEST_P(TokenizerVariants, GiveTheRecordedIdsAndTexts) {
  const std::string folder = "tokenizers/" + GetParam();
  const base::Json& own = test::golden_json(folder + "/tokenizer.json");
  for (const base::Json& variant : test::golden_json(folder + "/variants.json")) {
    SCOPED_TRACE(variant["name"].get<std::string>());
    base::Json json = own;
    json.update(variant["set"]);
    const auto tokenizer = tiny::open(json);
    for (const base::Json& recorded : variant["cases"]) {
      const tiny::Ids ids = recorded[1];
      EXPECT_EQ(tokenizer->encode(recorded[0].get<std::string>(), true), ids) << recorded[0];
      EXPECT_EQ(tokenizer->decode(ids, false), recorded[2].get<std::string>()) << recorded[0];
    }
  }
}

// tokenizers would wrap each part of the first one's result, the special tokens among them.
TEST(TokenizerPostProcessor, ASecondPostProcessorThatAddsTokensIsRefused) {
  base::Json json = test::golden_json("tokenizers/unigram_t5/tokenizer.json");
  const base::Json bert{{"type", "BertProcessing"}, {"sep", {"</s>", 1}}, {"cls", {"<pad>", 0}}};
  json["post_processor"] = {{"type", "Sequence"}, {"processors", {bert, bert}}};
  try {
    tiny::open(json);
    ADD_FAILURE() << "read";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::unsupported);
    EXPECT_NE(
        error.message().find("tokenizer.json.post_processor.processors[1]: a second post-processor that adds "
                             "tokens; one TemplateProcessing that adds them all is read"),
        std::string::npos)
        << error.message();
  }
}

INSTANTIATE_TEST_SUITE_P(Recorded, TokenizerVariants, testing::Values("unigram_t5", "wordpiece_bert_uncased"),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace trl::text
