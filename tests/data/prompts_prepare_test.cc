// The rules of preparing prompt-only rows: their ids, and those that leave no room for a completion.
#include <gtest/gtest.h>

#include "letter_shop.h"

namespace trl::data {
namespace {

using test::kTurnsTemplate;
using test::LetterShop;
using test::spelt;
using Lines = std::vector<std::string>;

TEST(PreparePrompts, TextAndMessages) {
  LetterShop shop(kTurnsTemplate);
  const auto prompts = [&](const std::string& jsonl) {
    return spelt((*prepare_prompts(shop.table(jsonl), shop.context))[0].prompt_ids);
  };
  EXPECT_EQ(prompts(R"({"prompt":"q","answer":3})"), "^q");
  EXPECT_EQ(prompts(R"({"prompt":[{"role":"user","content":"q"}],"answer":3})"), "u:q$a:");
  EXPECT_EQ(prompts(R"({"prompt":[{"from":"user","value":"q"}]})"), "u:q$a:");
  EXPECT_EQ(
      prompts(R"({"prompt":"q","chosen":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}],)"
              R"("rejected":[{"role":"user","content":"q"},{"role":"assistant","content":"b"}]})"),
      "^q");
  EXPECT_EQ(prompts(R"({"prompt":"q","chosen":[{"role":"assistant","content":"a"}],)"
                    R"("rejected":[{"role":"assistant","content":"b"}]})"),
            "^q");
  shop.arguments.bare_prompts = true;
  EXPECT_EQ(prompts(R"({"prompt":"q","answer":3})"), "q");
}

// They are for rewards, in any form: the trainer's keys of these names are those of all prompts.
TEST(PreparePrompts, AreNotRenderedWithColumnsOfTheirRow) {
  LetterShop shop(kTurnsTemplate);
  const std::string jsonl =
      R"({"prompt":[{"role":"user","content":"q"}],"tools":"search","chat_template_kwargs":3}
{"prompt":[{"role":"user","content":"r"}],"tools":[{}],"chat_template_kwargs":{"mood":"mild"}}
{"prompt":[{"role":"user","content":"s"}],"tools":null}
)";
  const auto list = prepare_prompts(shop.table(jsonl), shop.context);
  ASSERT_EQ(list->size(), 3);
  EXPECT_EQ(spelt((*list)[0].prompt_ids), "u:q$a:");
  EXPECT_EQ(spelt((*list)[1].prompt_ids), "u:r$a:");
  EXPECT_EQ(spelt((*list)[2].prompt_ids), "u:s$a:");
  EXPECT_NE((*list)[0].row.find(R"("tools":"search")"), std::string::npos) << (*list)[0].row;
  list->rows().tell();
  ASSERT_EQ(shop.log.lines.size(), 1u);
  EXPECT_NE(shop.log.lines[0].find("2 of 3 rows have a column 'tools' or 'chat_template_kwargs', which the "
                                   "chat template of prompts does not get"),
            std::string::npos)
      << shop.log.lines[0];
  shop.arguments.chat_template_kwargs = R"({"mood":"wild"})";
  EXPECT_EQ(spelt((*prepare_prompts(shop.table(jsonl), shop.context))[1].prompt_ids), "(wild)u:r$a:");
}

TEST(PreparePrompts, ThatLeaveNoRoomForACompletion) {
  LetterShop shop;
  const std::string jsonl = R"({"prompt":"four"}
{"prompt":"seven<e>"}
{"prompt":"to"})";
  const auto rows = [&](config::LongPrompts how) {
    shop.arguments.long_prompts = how;
    shop.log.lines.clear();
    Lines out;
    const auto list = prepare_prompts(shop.table(jsonl), shop.context);
    for (int64_t i = 0; i < list->size(); ++i) out.push_back(spelt((*list)[i].prompt_ids));
    list->rows().tell();
    return out;
  };
  EXPECT_EQ(rows(config::LongPrompts::drop).size(), 3u);  // any length fits
  shop.arguments.prompt_room = 5;
  EXPECT_EQ(rows(config::LongPrompts::drop), (Lines{"^four", "^to"}));
  ASSERT_EQ(shop.log.lines.size(), 1u);
  EXPECT_NE(shop.log.lines[0].find("1 of 3 rows is dropped by long_prompts"), std::string::npos)
      << shop.log.lines[0];
  EXPECT_EQ(rows(config::LongPrompts::count).size(), 3u);
  ASSERT_EQ(shop.log.lines.size(), 1u);
  EXPECT_NE(shop.log.lines[0].find("1 of 3 rows has a prompt of more than 5 tokens"), std::string::npos)
      << shop.log.lines[0];
  EXPECT_NE(test::message_of([&] { rows(config::LongPrompts::refuse); }).find("t.jsonl:2: its prompt has"),
            std::string::npos);
  shop.arguments.prompt_room = 0;
  EXPECT_NE(test::message_of([&] { rows(config::LongPrompts::drop); }).find("nothing is left to train on"),
            std::string::npos);
}

}  // namespace
}  // namespace trl::data
