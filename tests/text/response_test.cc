// What models write as messages: expected are parse_response of transformers 5.23 with TRL's response
// templates, and the forms that chat templates are known by.
#include "text/response/response_parser.h"

#include "support/golden.h"

namespace trl::text {
namespace {

const std::string kIm = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n",
                  kLlama = "<|start_header_id|>assistant<|end_header_id|>\n\n",
                  kOss = "<|start|>user<|message|>Hi<|end|><|start|>assistant";

// Templates of ours with the marks of each form.
const std::map<std::string, std::string> kMarked = {
    {"tags", "<|im_start|> <tool_call> <function={{ name }}>"},
    {"glm", "<|assistant|> <tool_call> <arg_key>"},
    {"json", "<|im_start|> <tool_call> {\"name\": , \"arguments\": }"},
    {"llama3", "<|start_header_id|> {% if message.tool_calls %}{{ '\"parameters\": ' }}"},
    {"gpt-oss", "functions. <|channel|>commentary <|call|>"},
    {"deepseek", "<｜Assistant｜> <｜tool▁call▁begin｜> ```json"}};

base::Json schemas() {
  return base::parse_json(R"([{"type": "function", "function": {"name": "f", "parameters": {"type": "object",
    "properties": {"n": {"type": "integer"}, "x": {"type": ["number", "null"]}, "s": {"type": "string"},
      "b": {"type": "boolean"}, "o": {"anyOf": [{"type": "object"}, {"type": "null"}]},
      "l": {"type": "array"}}}}}])",
                          "schemas");
}

std::optional<base::Json> parsed(const std::string& form, const std::string& prompt,
                                 const std::string& text) {
  const ResponseForm* const found = response_form(kMarked.at(form));
  EXPECT_NE(found, nullptr) << form;
  EXPECT_EQ(found->name, form);
  return ResponseParser(*found).parse(text, prompt, schemas());
}

struct ResponseCase {
  const char* form;
  std::string prompt, text;
  const char* message;  // empty: the text is not in the form
};

TEST(Response, IsReadAsTransformersDoes) {
  const ResponseCase cases[] = {
      {"json", kIm, R"x(Fine.<|im_end|>)x", R"x({"role": "assistant", "content": "Fine."})x"},
      {"json", kIm, R"x(<think>
hm
</think>

Ok. <tool_call>
{"name": "f", "arguments": {"n": "7", "s": "8"}}
</tool_call>
<tool_call>
{"name": "g"}
</tool_call><|im_end|>)x",
       R"x({"role": "assistant", "reasoning_content": "hm", "content": "Ok.", "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": {"n": 7, "s": "8"}}}, {"type": "function", "function": {"name": "g", "arguments": {}}}]})x"},
      {"json", kIm + "<think>\n\n</think>\n\n", R"x(so<|im_end|>)x",
       R"x({"role": "assistant", "content": "so"})x"},
      {"json", kIm + "<think>\n", R"x(why
</think>
so)x",
       R"x({"role": "assistant", "reasoning_content": "why", "content": "so"})x"},
      {"json", kIm, R"x(<tool_call>
{"name": "f", "arguments": {"n")x",
       ""},
      {"json", kIm, R"x(<tool_call>[1]</tool_call>)x", ""},
      {"json", kIm, R"x(<tool_call>{"name": 3}</tool_call>)x", ""},
      {"json", kIm, R"x(before<tool_call>{"name": "f", "arguments": null}</tool_call>after<|im_end|>)x",
       R"x({"role": "assistant", "content": "after", "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": {}}}]})x"},
      {"json", kIm, R"x(<tool_call>{"name": "f", "arguments": [1]}</tool_call>)x",
       R"x({"role": "assistant", "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": [1]}}], "content": ""})x"},
      {"json", kIm, R"x(<tool_call>{"name": "f", "arguments": {"n": 1e400, "s": "7"}}</tool_call>)x",
       R"x({"role": "assistant", "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": {"n": null, "s": "7"}}}], "content": ""})x"},
      {"json", kIm, "", R"x({"role": "assistant", "content": ""})x"},
      {"tags", kIm + "<think>\n", R"x(hm</think>

<tool_call>
<function=f>
<parameter=n>
3.0
</parameter>
<parameter=x>
2.50
</parameter>
<parameter=s>
7
</parameter>
<parameter=b>
True
</parameter>
<parameter=o>
{"a": [1]}
</parameter>
<parameter=l>
not
</parameter>
<parameter=other>
5
</parameter>
</function>
</tool_call><|im_end|>)x",
       R"x({"role": "assistant", "reasoning_content": "hm", "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": {"n": 3, "x": 2.5, "s": "7", "b": true, "o": {"a": [1]}, "l": "not", "other": "5"}}}], "content": ""})x"},
      {"tags", kIm, R"x(<tool_call>
<function=f>
</function>
</tool_call><|im_end|>)x",
       R"x({"role": "assistant", "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": {}}}], "content": ""})x"},
      {"llama3", kLlama, R"x({"name": "f", "parameters": {"n": "12"}}<|eot_id|>)x",
       R"x({"role": "assistant", "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": {"n": 12}}}], "content": ""})x"},
      {"llama3", kLlama, R"x(Hello<|eot_id|>)x", R"x({"role": "assistant", "content": "Hello"})x"},
      {"llama3", kLlama, R"x({"name": "f", "parameters": {"n": 1})x",
       R"x({"role": "assistant", "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": {"n": 1}}}], "content": ""})x"},
      {"gpt-oss", kOss,
       R"x(<|channel|>analysis<|message|>think<|end|><|start|>assistant to=functions.f<|channel|>commentary json<|message|>{"n": 2}<|call|>)x",
       R"x({"role": "assistant", "thinking": "think", "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": {"n": 2}}}], "content": ""})x"},
      {"gpt-oss", kOss, R"x(<|channel|>final<|message|>Bye.<|return|>)x",
       R"x({"role": "assistant", "content": "Bye."})x"},
      {"gpt-oss", kOss, R"x(noise)x", R"x({"role": "assistant", "content": ""})x"},
  };
  for (const ResponseCase& one : cases) {
    const auto got = parsed(one.form, one.prompt, one.text);
    EXPECT_EQ(got ? got->dump() : "",
              *one.message == '\0' ? "" : base::parse_json(one.message, "message").dump())
        << one.form << ": " << one.text;
  }
}

TEST(Response, IntegersOfAnySizeKeepTheirDigits) {
  const std::string digits = "12345678901234567890123";
  const auto arguments = [](const auto& message) {
    return message ? base::exact_text((*message)["tool_calls"][0]["function"]["arguments"]) : "";
  };
  const std::string call =
      R"({"name": "f", "arguments": {"o": [)" + digits + R"(], "n": "-)" + digits + R"("}})";
  EXPECT_EQ(arguments(parsed("json", kIm, "<tool_call>" + call + "</tool_call>")),
            R"({"o":[)" + digits + R"(],"n":-)" + digits + "}");
  const auto tags =
      parsed("tags", kIm,
             "<tool_call>\n<function=f>\n<parameter=x>\n" + digits + "\n</parameter>\n<parameter=l>\n[" +
                 digits + "]\n</parameter>\n</function>\n</tool_call>");
  EXPECT_EQ(arguments(tags), R"({"x":)" + digits + R"(,"l":[)" + digits + "]}");
}

// The token that ends a turn of calls is not content; TRL makes it the content.
TEST(Response, GlmEndsATurnByNamingWhoSpeaksNext) {
  const char* const calls =
      "\n<think>a</think>\nI call.\n<tool_call>f\n<arg_key>n</arg_key>\n<arg_value>4</arg_value>\n"
      "<arg_key>s</arg_key>\n<arg_value>two words</arg_value>\n</tool_call>\n<|observation|>";
  const base::Json want = {
      {"role", "assistant"},
      {"content", "I call."},
      {"reasoning_content", "a"},
      {"tool_calls",
       {{{"type", "function"},
         {"function", {{"name", "f"}, {"arguments", {{"n", 4}, {"s", "two words"}}}}}}}}};
  const auto got = parsed("glm", "<|user|>\nHi<|assistant|>", calls);
  ASSERT_TRUE(got);
  EXPECT_EQ(base::SortedJson(*got), base::SortedJson(want)) << got->dump();
  EXPECT_EQ(parsed("glm", "<|user|>\nHi<|assistant|>", "\n<think></think>\nDone<|user|>")->dump(),
            R"({"role":"assistant","content":"Done"})");
}

TEST(Response, DeepSeekCallsSeveralTools) {
  const char* const calls =
      "Two.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"n\": 1}\n```"
      "<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n```json\n{}\n```<｜tool▁call▁end｜>"
      "<｜tool▁calls▁end｜><｜end▁of▁sentence｜>";
  EXPECT_EQ(parsed("deepseek", "<｜User｜>Hi<｜Assistant｜>", calls)->dump(),
            R"({"role":"assistant","content":"Two.","tool_calls":[)"
            R"({"type":"function","function":{"name":"f","arguments":{"n":1}}},)"
            R"({"type":"function","function":{"name":"g","arguments":{}}}]})");
}

// The forms of templates that TRL knows, and of others that can call tools.
TEST(Response, FormsAreKnownByTheirMarks) {
  const std::map<std::string, std::string> forms = {{"chatml_generation", "json"},
                                                    {"qwen2_5", "json"},
                                                    {"qwen2_5_training", "json"},
                                                    {"qwen3", "json"},
                                                    {"qwen3_training", "json"},
                                                    {"llama3_1", "llama3"},
                                                    {"llama3_2", "llama3"},
                                                    {"gptoss", "gpt-oss"},
                                                    {"qwen3_instruct_2507", "json"},
                                                    {"glm4moe", "glm"},
                                                    {"qwen3_5_think", "tags"},
                                                    {"deepseekv3", "deepseek"},
                                                    {"deepseekv3_training", "deepseek"},
                                                    {"gptoss_training", "gpt-oss"}};
  TRL_NEED_GOLDEN("chat_templates/glm4moe/template.jinja");
  for (const auto& [name, form] : forms) {
    const std::string source = test::read_golden("chat_templates/" + name + "/template.jinja");
    const ResponseForm* const found = response_form(source);
    EXPECT_EQ(found == nullptr ? "" : found->name, form) << name;
  }
  for (const char* name : {"chatml_plain", "llama3", "gemma3", "phi3", "cohere2", "deepseek_r1_distill"})
    EXPECT_EQ(response_form(test::read_golden(std::string("chat_templates/") + name + "/template.jinja")),
              name == std::string_view("deepseek_r1_distill")
                  ? response_form(kMarked.at("deepseek"))  // which leaves out calls, and is refused for that
                  : nullptr)
        << name;
}

}  // namespace
}  // namespace trl::text
