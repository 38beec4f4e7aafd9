// What surrounds the template: messages as Hugging Face hands them over, unfinished final messages,
// variables, spans and token masks.
#include "base/error.h"
#include "support/golden.h"
#include "text/chat_template/chat_template.h"

namespace trl::text {
namespace {

using Offsets = std::vector<std::pair<uint32_t, uint32_t>>;

const char* const kPlain = "{% for m in messages %}<{{ m.role }}>{{ m.content }}</>{% endfor %}";

base::Json two_turns(const base::Json& content) {
  return {{{"role", "user"}, {"content", "Hi"}}, {{"role", "assistant"}, {"content", content}}};
}

std::string continued(const std::string& source, const base::Json& messages) {
  RenderOptions options;
  options.continue_final_message = true;
  return ChatTemplate(source).render(messages, options).text;
}

template <typename Call>
std::string failure(Call call) {
  try {
    call();
  } catch (const Error& e) {
    return e.message();
  }
  return "no error";
}

TEST(ChatTemplateRender, GlobalNames) {
  RenderOptions options;
  options.variables = {{"bos_token", "<s>"}, {"range", 5}};
  const ChatTemplate names(
      "{{ tools }}{{ tools is none }}{{ documents is none }}{{ add_generation_prompt }}"
      "{{ bos_token }}{{ eos_token is defined }}{{ range }}");
  EXPECT_EQ(names.render(base::Json::array(), options).text, "NoneTrueTrueFalse<s>False5");
  options.add_generation_prompt = true;
  options.tools = base::Json::array({{{"name", "f"}}});
  options.variables = {{"documents", {"d"}}};
  EXPECT_EQ(names.render(base::Json::array(), options).text,
            "[{'name': 'f'}]FalseFalseTrueFalse" +
                ChatTemplate("{{ range }}").render({base::Json::array()}, {}).text);
  for (const char* name : {"messages", "tools", "add_generation_prompt", "continue_final_message"}) {
    options.variables = {{name, 1}};
    EXPECT_EQ(
        failure([&] { names.render(base::Json::array(), options); }),
        std::string("chat template variables: '") + name + "' has its own argument and cannot be a variable");
  }
}

TEST(ChatTemplateRender, IntegersOfAnySizeKeepTheirDigits) {
  RenderOptions options;
  options.tools = base::parse_exact_json(
      R"([{"maximum": 100000000000000000000001, "minimum": -9223372036854775809, "n": 18446744073709551615}])",
      "tools");
  options.variables = base::parse_exact_json(R"({"seed": 36893488147419103232})", "variables");
  EXPECT_EQ(ChatTemplate("{{ tools }}{{ tools | tojson }}{{ seed }}{{ seed is integer }}")
                .render(base::Json::array(), options)
                .text,
            "[{'maximum': 100000000000000000000001, 'minimum': -9223372036854775809, 'n': "
            "18446744073709551615}][{\"maximum\": 100000000000000000000001, \"minimum\": "
            "-9223372036854775809, \"n\": 18446744073709551615}]36893488147419103232True");
}

TEST(ChatTemplateRender, KeysWithoutValueAreLeftOut) {
  const base::Json messages = {
      {{"role", "assistant"}, {"content", nullptr}, {"tool_calls", nullptr}, {"x", {{"y", nullptr}}}}};
  EXPECT_EQ(ChatTemplate("{{ messages }}").render(messages, {}).text,
            "[{'role': 'assistant', 'x': {'y': None}}]");
}

TEST(ChatTemplateRender, ReasoningUnderEachName) {
  for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
    const base::Json messages = {{{"role", "assistant"}, {name, "r"}}};
    EXPECT_EQ(ChatTemplate("{{ messages[0].thinking }}{{ messages[0].reasoning_content }}")
                  .render(messages, {})
                  .text,
              "rr")
        << name;
  }
  const base::Json both = {{{"thinking", "t"}, {"reasoning_content", "r"}}};
  EXPECT_EQ(ChatTemplate("{{ messages }}").render(both, {}).text,
            "[{'thinking': 't', 'reasoning_content': 'r'}]");
}

TEST(ChatTemplateRender, MessagesOfWrongType) {
  const ChatTemplate plain(kPlain);
  EXPECT_EQ(failure([&] { plain.render({{"a", 1}}, {}); }), "messages: a list was expected, got object");
  EXPECT_EQ(failure([&] {
              plain.render(base::Json::array({base::Json::object(), "x"}), {});
            }),
            "messages: entry 2 is string, an object with role and content was expected");
}

TEST(ChatTemplateRender, ContinuesTheFinalMessage) {
  EXPECT_EQ(continued(kPlain, two_turns("The answer is")), "<user>Hi</><assistant>The answer is");
  EXPECT_EQ(continued(kPlain, two_turns("The answer is ")), "<user>Hi</><assistant>The answer is ");
  const std::string trimming = "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}</>{% endfor %}";
  EXPECT_EQ(continued(trimming, two_turns("  The answer is  ")), "<user>Hi</><assistant>The answer is");
  EXPECT_EQ(continued(kPlain, two_turns("")), "<user>Hi</><assistant>");
  const std::string parts =
      "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}"
      "{% for p in m.content %}{{ p.text }}|{% endfor %}{% endif %}{% endfor %}";
  const base::Json blocks = {
      {{"type", "text"}, {"text", "a"}}, {{"type", "text"}, {"text", "b"}}, {{"type", "image"}}};
  EXPECT_EQ(continued(parts, two_turns(blocks)), "Hia|b");
}

TEST(ChatTemplateRender, WhatCannotBeContinued) {
  const auto message = [](const std::string& source, const base::Json& messages) {
    return failure([&] { continued(source, messages); });
  };
  EXPECT_EQ(message(kPlain, base::Json::array()), "continue_final_message: the conversation is empty");
  EXPECT_EQ(message(kPlain, {{{"role", "assistant"}}}),
            "continue_final_message: the final message has no content");
  EXPECT_EQ(message(kPlain, two_turns(nullptr)), "continue_final_message: the final message has no content");
  EXPECT_EQ(message("{{ messages[-1]['con' + 'tent'] }}", two_turns("a")),
            "continue_final_message: the chat template never reads 'content'");
  EXPECT_EQ(message(kPlain, two_turns(base::Json::array({{{"type", "image"}}}))),
            "continue_final_message: the final message has no text to continue");
  EXPECT_EQ(message(kPlain, two_turns(5)),
            "continue_final_message: the final message has no text to continue");
  EXPECT_EQ(message("{{ messages[0].content }}", two_turns("a")),
            "continue_final_message: the final message does not appear in the rendered chat; the template "
            "changes it");
  RenderOptions options;
  options.continue_final_message = options.add_generation_prompt = true;
  EXPECT_EQ(failure([&] { ChatTemplate(kPlain).render(two_turns("a"), options); }),
            "continue_final_message and add_generation_prompt exclude each other");
}

TEST(ChatTemplateRender, SpansInBytes) {
  const ChatTemplate marked(
      "é{% generation %}{{ messages[0].content }}{% endgeneration %}-{% generation %}x"
      "{% generation %}y{% endgeneration %}{% endgeneration %}");
  const Rendered rendered = marked.render({{{"content", "日本"}}}, {});
  EXPECT_EQ(rendered.text, "é日本-xy");
  // the inner block comes first and is counted from the finished output, as Hugging Face does
  const std::vector<std::pair<size_t, size_t>> expected = {{2, 8}, {9, 10}, {9, 11}};
  EXPECT_EQ(rendered.generation, expected);
  EXPECT_TRUE(marked.has_generation_markers());
  EXPECT_FALSE(ChatTemplate("{% raw %}{% generation %}{% endraw %}").has_generation_markers());
}

TEST(ChatTemplateRender, AssistantMask) {
  Rendered rendered{"ab日c", {{2, 6}}};
  EXPECT_EQ(assistant_mask(rendered, Offsets{{0, 1}, {1, 2}, {2, 5}, {5, 6}}),
            (std::vector<uint8_t>{0, 0, 1, 1}));
  // a token across the block's beginning belongs to it; a token that was added does not
  EXPECT_EQ(assistant_mask(rendered, Offsets{{0, 0}, {0, 1}, {1, 5}, {5, 6}}),
            (std::vector<uint8_t>{0, 0, 1, 1}));
  // several tokens of one character all belong to it
  rendered.generation = {{1, 5}};
  EXPECT_EQ(assistant_mask(rendered, Offsets{{0, 1}, {1, 2}, {2, 5}, {2, 5}, {5, 6}}),
            (std::vector<uint8_t>{0, 1, 1, 1, 0}));
  EXPECT_EQ(assistant_mask(rendered, Offsets{{0, 1}, {1, 2}, {2, 3}, {3, 5}, {5, 6}}),
            (std::vector<uint8_t>{0, 1, 1, 1, 0}));
  // the text was cut: the block runs to the last token
  rendered.generation = {{1, 50}};
  EXPECT_EQ(assistant_mask(rendered, Offsets{{0, 1}, {1, 2}, {2, 5}}), (std::vector<uint8_t>{0, 1, 1}));
  EXPECT_EQ(assistant_mask(rendered, {}), std::vector<uint8_t>());
}

// transformers trains the first of these rows from the block on, and none of the others as it should.
TEST(ChatTemplateRender, BlockHasTheTokensThatHoldAPartOfIt) {
  using Mask = std::vector<uint8_t>;
  const auto mask = [](std::vector<std::pair<size_t, size_t>> blocks, const Offsets& offsets) {
    return assistant_mask({"ab \ncd", std::move(blocks)}, offsets);
  };
  // no token holds the space (a normalizer dropped it) in which the block ends or begins
  EXPECT_EQ(mask({{1, 3}}, {{0, 1}, {1, 2}, {3, 4}, {4, 5}, {5, 6}}), (Mask{0, 1, 0, 0, 0}));
  EXPECT_EQ(mask({{2, 5}, {5, 6}}, {{0, 1}, {1, 2}, {3, 4}, {4, 5}, {5, 6}}), (Mask{0, 0, 1, 1, 1}));
  EXPECT_EQ(mask({{2, 3}}, {{0, 1}, {1, 2}, {3, 4}, {4, 5}, {5, 6}}), (Mask{0, 0, 0, 0, 0}));
  // it ends with token 0
  EXPECT_EQ(mask({{0, 2}}, {{0, 2}, {2, 4}, {4, 6}}), (Mask{1, 0, 0}));
  EXPECT_EQ(mask({{0, 1}}, {{0, 2}, {2, 4}, {4, 6}}), (Mask{1, 0, 0}));
  // it is empty, at the start, within a token, between two and at the end
  for (const size_t at : {0, 1, 2, 6}) EXPECT_EQ(mask({{at, at}}, {{0, 2}, {2, 4}, {4, 6}}), (Mask{0, 0, 0}));
  // tokens without a width, as trimmed offsets leave them, belong to it between two that have one
  EXPECT_EQ(mask({{0, 5}}, {{0, 2}, {4, 4}, {4, 5}, {5, 6}}), (Mask{1, 1, 1, 0}));
  EXPECT_EQ(mask({{0, 4}}, {{0, 2}, {4, 4}, {4, 5}, {5, 6}}), (Mask{1, 0, 0, 0}));
  // one after the text is dropped, and those after it count
  EXPECT_EQ(mask({{50, 60}, {0, 1}}, {{0, 1}, {1, 2}}), (Mask{1, 0}));
}

TEST(ChatTemplateRender, TimeOfStrftimeNow) {
  const auto at = [](int64_t now) {
    RenderOptions options;
    options.now = now;
    return ChatTemplate("{{ strftime_now('%Y-%m-%d %H:%M:%S %a %j') }}")
        .render(base::Json::array(), options)
        .text;
  };
  EXPECT_EQ(at(0), "1970-01-01 00:00:00 Thu 001");
  EXPECT_EQ(at(951782400), "2000-02-29 00:00:00 Tue 060");
  EXPECT_EQ(at(1735689599), "2024-12-31 23:59:59 Tue 366");
  EXPECT_EQ(at(INT64_MAX), "9999-12-31 23:59:59 Fri 365");
  EXPECT_GE(at(-1), "2024");  // the clock
}

}  // namespace
}  // namespace trl::text
