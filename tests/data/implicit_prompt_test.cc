// Pairs whose prompt is what both sides begin with, as the trainers get them.
#include <gtest/gtest.h>

#include "preference_shop.h"
#include "support/letter_tokenizer.h"

namespace trl::data {
namespace {

// What is left of a text may be empty; its end is trained.
TEST(ImplicitPrompt, IsAllThatIsCommon) {
  test::PreferenceShop shop(std::make_unique<test::LetterTokenizer>());
  const auto list = prepare_dpo(
      shop.table(R"({"chosen":"The sky is blue","rejected":"The sky is blue and vast"})"), shop.context);
  const PreferenceExample pair = (*list)[0];
  EXPECT_EQ(shop.tokenizer->decode(pair.prompt_ids, true), "The sky is blue");
  EXPECT_EQ(pair.chosen_ids, std::vector<int32_t>{test::kEos});
  EXPECT_EQ(shop.tokenizer->decode(pair.rejected_ids, true), " and vast");
  EXPECT_EQ(shop.log.lines,
            std::vector<std::string>{"t.jsonl: 1 of 1 row has an empty completion (the first: t.jsonl:1)"});
}

// A side of messages that is all prompt has no token of its own: its row is dropped, whatever the lengths.
TEST(ImplicitPrompt, SidesThatAreAllPromptAreDroppedEarlyAndLate) {
  const std::string user = R"({"role":"user","content":"q"})", a = R"({"role":"assistant","content":"a"})",
                    b = R"({"role":"assistant","content":")" + std::string(300, 'b') + R"("})";
  std::string rows;
  for (int i = 0; i < 4000; ++i)
    rows +=
        R"({"chosen":[)" + user + "," + b + R"(],"rejected":[)" + user + "," + (i % 4 == 1 ? b : a) + "]}\n";
  for (const std::optional<int64_t> length : {std::optional<int64_t>(400), std::optional<int64_t>()}) {
    for (const bool late : {false, true}) {
      test::PreferenceShop shop(std::make_unique<test::LetterTokenizer>(test::kPlainTemplate));
      shop.arguments.max_length = length;
      shop.context.needs_lengths = late;
      const auto list = prepare_dpo(shop.table(rows), shop.context);
      ASSERT_EQ(list->size(), 3000);
      EXPECT_EQ((*list)[1].source_row, 2);
      list->rows().wait();
      ASSERT_EQ(shop.log.lines.size(), 1u);
      EXPECT_NE(shop.log.lines[0].find("1000 of 4000 rows are dropped because no token is left"),
                std::string::npos)
          << shop.log.lines[0];
    }
  }
}

}  // namespace
}  // namespace trl::data
