// Conversations as prompts with their completions, with a tokenizer of one token a byte.
#include <gtest/gtest.h>

#include "letter_shop.h"

namespace trl::data {
namespace {

using test::spelt;

constexpr const char* kConversationTemplate =
    "{% for m in messages %}{{ m['role'][0] }}:{{ m['content'] }}{{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}a:{% endif %}";

using Lines = std::vector<std::string>;

Lines conversations(test::PreferenceShop& shop, const std::string& jsonl) {
  const auto list = prepare_conversations(shop.table(jsonl), shop.context);
  Lines out;
  for (int64_t i = 0; i < list->size(); ++i) {
    const PromptExample e = (*list)[i];
    out.push_back(fmt::format("{} {}|{}", e.source_row, spelt(e.prompt_ids), spelt(e.completion_ids)));
  }
  return out;
}

constexpr const char* kTurns =
    R"({"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"xy"}]})";

// The last message is the completion, and a column prompt is the text of the prompt as it is.
TEST(ConversationRows, EndWithTheCompletion) {
  test::PreferenceShop shop(std::make_unique<test::LetterTokenizer>(kConversationTemplate));
  EXPECT_EQ(conversations(shop, kTurns), (Lines{"0 u:q$a:|xy$"}));
  EXPECT_EQ(
      conversations(
          shop,
          R"({"prompt":"u:q","messages":[{"role":"user","content":"q"},{"role":"assistant","content":"xy"}]})"),
      (Lines{"0 u:q|$a:xy$"}));
}

// Without tools of their row, as in TRL's DataCollatorForChatML.
TEST(ConversationRows, AreNotRenderedWithColumnsOfTheirRow) {
  test::PreferenceShop shop(std::make_unique<test::LetterTokenizer>(
      std::string("{% if tools %}T{% endif %}{% if mood %}M{% endif %}") + kConversationTemplate));
  EXPECT_EQ(conversations(
                shop, R"({"tools":[{"name":"f"}],"chat_template_kwargs":{"mood":"mild"},)"
                      R"("messages":[{"role":"user","content":"q"},{"role":"assistant","content":"xy"}]})"),
            (Lines{"0 u:q$a:|xy$"}));
}

TEST(ConversationRows, LoseTheirStart) {
  test::PreferenceShop shop(std::make_unique<test::LetterTokenizer>(kConversationTemplate));
  shop.arguments.max_length = 5;
  EXPECT_EQ(conversations(shop, kTurns), (Lines{"0 a:|xy$"}));
  shop.arguments.max_length = 3;
  EXPECT_NE(test::message_of([&] { conversations(shop, kTurns); }).find("leaves no token of the prompt"),
            std::string::npos);
}

TEST(ConversationRows, NeedAPromptAndACompletion) {
  test::PreferenceShop shop(std::make_unique<test::LetterTokenizer>(kConversationTemplate));
  EXPECT_NE(test::message_of([&] {
              conversations(shop, R"({"messages":[{"role":"assistant","content":"xy"}]})");
            }).find("at least two messages"),
            std::string::npos);
  EXPECT_NE(test::message_of([&] { conversations(shop, R"({"text":"q"})"); }).find("messages"),
            std::string::npos);
}

}  // namespace
}  // namespace trl::data
