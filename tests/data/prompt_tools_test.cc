// Prompts that are rendered with the tools of a run.
#include "data/row/prompt_tools.h"

#include "data/preference_shop.h"
#include "support/letter_tokenizer.h"

namespace trl::data {
namespace {

constexpr const char* kTemplate =
    "{% for t in tools or ['none'] %}[{{ t['name'] or t }}]{% endfor %}"
    "{% for m in messages %}{{ m['content'] }}{% endfor %}";

std::string text_of(test::PreferenceShop& shop, const std::string& row) {
  const PromptExample prompt = (*prepare_prompts(shop.table(row), shop.context))[0];
  return shop.tokenizer->decode(prompt.prompt_ids, false);
}

TEST(PromptTools, AreThoseOfTheRunAlone) {
  test::PreferenceShop shop(std::make_unique<test::LetterTokenizer>(kTemplate));
  const std::string row = R"({"prompt":[{"role":"user","content":"Hi"}],"tools":[{"name":"own"}]})";
  EXPECT_EQ(text_of(shop, row), "[none]Hi");
  PromptTools tools{.schemas = {{"", {{{"name", "add"}}, {{"name", "mul"}}}}}};
  shop.context.tools = &tools;
  EXPECT_EQ(text_of(shop, row), "[add][mul]Hi");
  tools.chat_template = "{{ tools[0]['name'] }}: {{ messages[0]['content'] }}";
  EXPECT_EQ(text_of(shop, row), "add: Hi");
  EXPECT_EQ(test::message_of([&] { text_of(shop, R"({"prompt":"Hi"})"); }, Status::invalid_config),
            "tools: t.jsonl:1: its prompt is text, and tools are called in conversations: give messages");
}

TEST(PromptTools, ARowHasThoseOfItsEnvironment) {
  test::PreferenceShop shop(std::make_unique<test::LetterTokenizer>(kTemplate));
  PromptTools tools{.schemas = {{"hall", {{{"name", "open"}}}}, {"yard", base::Json::array()}},
                    .environments = true};
  shop.context.tools = &tools;
  const auto in = [&](const std::string& environment) {
    return text_of(shop, R"({"prompt":[{"role":"user","content":"Go"}],"environment":)" + environment + "}");
  };
  EXPECT_EQ(in("\"hall\""), "[open]Go");
  EXPECT_EQ(in("\"yard\""), "[none]Go");  // not an empty list, as in TRL
  EXPECT_EQ(
      test::message_of([&] { in("\"sea\""); }),
      "t.jsonl:1: column 'environment' is \"sea\", which the key environments does not name: give one of "
      "hall, yard");
  EXPECT_EQ(test::message_of([&] { in("null"); }),
            "t.jsonl:1: column 'environment' is null: give one of hall, yard");
  EXPECT_EQ(test::message_of([&] { text_of(shop, R"({"start":3})"); }),
            "t.jsonl:1: column 'environment' is missing: give one of hall, yard");
  EXPECT_EQ(text_of(shop, R"({"environment":"hall"})"), "[open]");  // its prompt is what a reset says
  tools.schemas.erase("yard");
  EXPECT_EQ(text_of(shop, R"({"start":3})"), "[open]");  // the only one
}

}  // namespace
}  // namespace trl::data
