// Messages of from and value: which roles they become, and what is said of those that a template leaves out.
#include "data/row/conversions.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "data/prepare/sft.h"
#include "preference_shop.h"
#include "support/error_of.h"
#include "support/letter_tokenizer.h"
#include "support/warnings.h"

namespace trl::data {
namespace {

using base::Json;

Json converted(const char* conversations) {
  Row row{{{"conversations", Json::parse(conversations)}}, "t.jsonl:3"};
  convert_conversations(row);
  return row.value;
}

TEST(FromValue, RolesOfShareGpt) {
  EXPECT_EQ(
      converted(R"([{"from":"system","value":"s"},{"from":"human","value":"h"},{"from":"gpt","value":"g"},
                          {"from":"observation","value":"{}"},{"from":"user","value":"u","weight":1},
                          {"from":"assistant","value":"a"},{"from":"tool","value":"t"},{"from":"bing","value":"b"}])"),
      Json::parse(R"({"messages":[{"role":"system","content":"s"},{"role":"user","content":"h"},
                          {"role":"assistant","content":"g"},{"role":"tool","content":"{}"},
                          {"weight":1,"role":"user","content":"u"},{"role":"assistant","content":"a"},
                          {"role":"tool","content":"t"},{"role":"bing","content":"b"}]})"));
  // a role is never changed
  const char* const roles = R"([{"role":"human","content":"h"},{"role":"gpt","content":"g"}])";
  EXPECT_EQ(converted(roles), Json({{"conversations", Json::parse(roles)}}));
}

TEST(FromValue, FunctionCalls) {
  const auto calls = [](const std::string& value) {
    const Json row = converted(Json::array({{{"from", "human"}, {"value", "h"}},
                                            {{"from", "function_call"}, {"value", Json::parse(value)}}})
                                   .dump()
                                   .c_str());
    EXPECT_EQ(row["messages"][1]["role"], "assistant");
    EXPECT_EQ(row["messages"][1]["content"], "");
    return row["messages"][1]["tool_calls"];
  };
  const Json one =
      Json::parse(R"([{"type":"function","function":{"name":"f","arguments":{"b":1,"a":[2]}}}])");
  EXPECT_EQ(calls(R"("{\"name\": \"f\", \"arguments\": {\"b\": 1, \"a\": [2]}}")"), one);
  EXPECT_EQ(calls(R"("[{\"name\": \"f\", \"arguments\": {\"b\": 1, \"a\": [2]}}]")"), one);
  EXPECT_EQ(calls(R"("{\"name\": \"f\", \"arguments\": \"{\\\"b\\\": 1, \\\"a\\\": [2]}\"}")"),
            one);  // OpenAI's
  EXPECT_EQ(calls(R"({"name":"f","arguments":{"b":1,"a":[2]}})"), one);
  EXPECT_EQ(calls(R"("[{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"g\", \"arguments\": {}}]")").size(),
            2u);
  for (const char* value : {R"x("f(1)")x", R"x("{\"name\": \"f\"}")x", R"x("[]")x", "3"}) {
    const auto [status, message] = test::error_of([&] { calls(value); });
    EXPECT_EQ(status, Status::format);
    EXPECT_TRUE(
        message.starts_with("t.jsonl:3: column 'conversations': message 2: the value of a function_call is "))
        << message;
    EXPECT_TRUE(
        message.ends_with(", but JSON of a call with 'name' and 'arguments', or of a list of such calls, "
                          "is expected"))
        << message;
  }
}

// A template that knows these roles, as Qwen3's does; another renders whatever comes.
constexpr const char* kStrict =
    "{% for m in messages %}{% if m.role in ['user', 'system', 'assistant'] %}[{{ m.role }}]{{ m.content }}"
    "{% if m.tool_calls %}{{ m.tool_calls[0].function.name }}{% endif %}{{ eos_token }}{% endif %}{% endfor "
    "%}"
    "{% if add_generation_prompt %}[assistant]{% endif %}";

std::string text_of(const Example& example) {
  return test::LetterTokenizer().decode(example.input_ids, true);
}

TEST(FromValue, RowsReachTheTemplateWithItsRoles) {
  test::PreferenceShop shop(std::make_unique<test::LetterTokenizer>(kStrict));
  const auto rows = prepare_sft(
      shop.table(
          R"({"conversations":[{"from":"system","value":"s"},{"from":"human","value":"h"},)"
          R"({"from":"function_call","value":"{\"name\":\"f\",\"arguments\":{}}"},{"from":"gpt","value":"g"}]})"),
      shop.context);
  EXPECT_EQ(text_of(rows->read(0)), "[system]s[user]h[assistant]f[assistant]g");
  EXPECT_TRUE(shop.log.lines.empty());
}

TEST(LeftOut, MessagesOfWhichNothingIsRenderedAreCounted) {
  test::PreferenceShop shop(std::make_unique<test::LetterTokenizer>(kStrict));
  const std::string known = R"({"messages":[{"role":"system","content":"s"},{"role":"user","content":"e"},)"
                            R"({"role":"assistant","content":"e"},{"role":"assistant","content":""}]})";
  prepare_sft(shop.table(known), shop.context);
  EXPECT_TRUE(shop.log.lines.empty());
  const std::string unknown =
      R"({"messages":[{"role":"system","content":"s"},{"role":"human","content":"s"},)"
      R"({"role":"gpt","content":"t"}]})";
  prepare_sft(shop.table(known + "\n" + unknown + "\n" + unknown), shop.context);
  ASSERT_EQ(shop.log.lines.size(), 1u);
  EXPECT_NE(shop.log.lines[0].find("in 2 of 3 rows the chat template renders nothing of a message"),
            std::string::npos)
      << shop.log.lines[0];
  EXPECT_NE(shop.log.lines[0].find(":2, message 2)"), std::string::npos) << shop.log.lines[0];
}

TEST(LeftOut, AlsoAToolsAnswerWhoseWordsStandElsewhere) {
  test::PreferenceShop shop(std::make_unique<test::LetterTokenizer>(kStrict));
  prepare_sft(shop.table(R"({"messages":[{"role":"user","content":"What?"},{"role":"tool","content":"42"},)"
                         R"({"role":"assistant","content":"It is 42."}]})"),
              shop.context);
  ASSERT_EQ(shop.log.lines.size(), 1u);
  EXPECT_NE(shop.log.lines[0].find(":1, message 2)"), std::string::npos) << shop.log.lines[0];
  // what a template changes is there, and so is what it takes from parts of a content
  test::PreferenceShop changing(
      std::make_unique<test::LetterTokenizer>("{% for m in messages %}{{ (m.content if m.content is string "
                                              "else m.content[0].text).split('|')[-1] | trim }}"
                                              "{{ eos_token }}{% endfor %}"));
  prepare_sft(changing.table(R"({"messages":[{"role":"user","content":[{"type":"text","text":" q "}]},)"
                             R"({"role":"assistant","content":"thought|\nb\n"}]})"),
              changing.context);
  EXPECT_TRUE(changing.log.lines.empty()) << changing.log.lines[0];
}

TEST(LeftOut, AndACallThatTheTemplateDoesNotKnow) {
  test::PreferenceShop shop(std::make_unique<test::LetterTokenizer>(test::kPlainTemplate));
  prepare_sft(shop.table(R"({"conversations":[{"from":"human","value":"h"},)"
                         R"({"from":"function_call","value":"{\"name\":\"add\",\"arguments\":{}}"}]})"),
              shop.context);
  ASSERT_EQ(shop.log.lines.size(), 1u);
  EXPECT_NE(shop.log.lines[0].find(":1, message 2)"), std::string::npos) << shop.log.lines[0];
}

TEST(LeftOut, IsCountedForPreferencesToo) {
  const std::string rows =
      R"({"prompt":[{"role":"human","content":"q"}],"chosen":[{"role":"assistant","content":"a"}],)"
      R"("rejected":[{"role":"assistant","content":"b"}]})";
  const auto lines = [&](auto prepare) {
    test::PreferenceShop shop(std::make_unique<test::LetterTokenizer>(kStrict));
    prepare(shop.table(rows), shop.context);
    return shop.log.lines;
  };
  for (const auto& said : {lines(prepare_dpo), lines(prepare_reward), lines(prepare_kto)}) {
    ASSERT_FALSE(said.empty());
    EXPECT_NE(said.back().find("the chat template renders nothing of a message"), std::string::npos)
        << said.back();
  }
}

}  // namespace
}  // namespace trl::data
