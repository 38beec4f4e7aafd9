// The chat template of completions that call tools: tokens of answers as TRL's _get_tool_suffix_ids has them,
// and templates that are refused.
#include "run/rollout/tools/tool_template.h"

#include "data/tokenizer/open_tokenizer.h"
#include "io/model_source.h"
#include "run/tokenizer.h"
#include "support/error_of.h"
#include "support/golden.h"

namespace trl::run {
namespace {

constexpr const char* kModel = "models/qwen3_long/tokenizer.json";

std::unique_ptr<text::Tokenizer> tokenizer_with(const std::string& chat_template) {
  const std::string file = test::golden_path(kModel);
  const auto own = data::open_tokenizer(io::ModelSource(file.substr(0, file.rfind('/'))), nullptr);
  config::DataArguments arguments;
  arguments.chat_template = chat_template;
  return data::training_tokenizer(*own, arguments);
}

config::OnlineArguments with_tool() {
  config::OnlineArguments arguments;
  arguments.tools = R"({"": [{"type": "function", "function": {"name": "f"}}]})";
  return arguments;
}

std::string answer_text(const std::string& name, const std::vector<std::string>& answers) {
  const auto tokenizer = tokenizer_with(test::read_golden("chat_templates/" + name + "/template.jinja"));
  const ToolTemplate form(with_tool(), *tokenizer);
  base::Json messages = base::Json::array();
  for (const std::string& answer : answers)
    messages.push_back({{"role", "tool"}, {"name", "f"}, {"content", answer}});
  return text_of(*tokenizer, form.answer_ids(messages), false);
}

TEST(ToolTemplate, AnswersHaveTrlsTokens) {
  TRL_NEED_GOLDEN(kModel);
  TRL_NEED_GOLDEN("chat_templates/glm4moe/template.jinja");
  const std::string qwen =
      "\n<|im_start|>user\n<tool_response>\n71\n</tool_response>\n<tool_response>\n58\n</tool_response>"
      "<|im_end|>\n<|im_start|>assistant\n";
  for (const char* name : {"qwen2_5", "qwen3", "qwen3_instruct_2507"})
    EXPECT_EQ(answer_text(name, {"71", "58"}), qwen) << name;
  EXPECT_EQ(answer_text("qwen3_5_think", {"71", "58"}), qwen + "<think>\n");
  EXPECT_EQ(answer_text("chatml_generation", {"71", "58"}),
            "\n<|im_start|>tool\n71<|im_end|>\n<|im_start|>tool\n58<|im_end|>\n<|im_start|>assistant\n");
  for (const char* name : {"llama3_1", "llama3_2"}) {
    EXPECT_EQ(answer_text(name, {"71"}),
              "<|start_header_id|>ipython<|end_header_id|>\n\n\"71\"<|eot_id|>"
              "<|start_header_id|>assistant<|end_header_id|>\n\n")
        << name;
  }
  EXPECT_EQ(
      answer_text("gptoss", {"71"}),
      "<|start|>functions.f to=assistant<|channel|>commentary<|message|>\"71\"<|end|><|start|>assistant");
  EXPECT_EQ(answer_text("glm4moe", {"71", "58"}),
            "<|observation|>\n<tool_response>\n71\n</tool_response>\n<tool_response>\n58\n</tool_response>"
            "<|assistant|>");
  EXPECT_EQ(answer_text("deepseekv3", {"71", "58"}),
            "<｜tool▁outputs▁begin｜><｜tool▁output▁begin｜>71<｜tool▁output▁end｜><｜tool▁output▁begin｜>58"
            "<｜tool▁output▁end｜><｜tool▁outputs▁end｜>");
}

// As TRL's supports_tool_calling says.
TEST(ToolTemplate, OthersAreRefused) {
  TRL_NEED_GOLDEN(kModel);
  TRL_NEED_GOLDEN("chat_templates/cohere2/template.jinja");
  for (const char* name :
       {"chatml_plain", "spm_turns", "mistral_style", "llama2_style", "smollm2", "llama3", "llama3_training",
        "gemma", "gemma3", "phi3", "phi3_5", "deepseek_r1_distill", "cohere", "cohere2", "lfm2"}) {
    const auto tokenizer =
        tokenizer_with(test::read_golden(std::string("chat_templates/") + name + "/template.jinja"));
    const auto [status, message] = test::error_of([&] { ToolTemplate(with_tool(), *tokenizer); });
    EXPECT_EQ(status, Status::invalid_config) << name;
    EXPECT_NE(message.find("leaves out calls"), std::string::npos) << name << ": " << message;
  }
}

TEST(ToolTemplate, ReadsATurn) {
  TRL_NEED_GOLDEN(kModel);
  TRL_NEED_GOLDEN("chat_templates/qwen3/template.jinja");
  const auto tokenizer = tokenizer_with(test::read_golden("chat_templates/qwen3/template.jinja"));
  const ToolTemplate form(with_tool(), *tokenizer);
  const auto ids = [&](const char* text) { return tokenizer->encode(text, false); };
  const auto before = ids("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
  const base::Json row = {{"prompt", "Hi"}};
  const auto call = ids("<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call><|im_end|>");
  EXPECT_EQ(form.message_of(call, before, row).dump(),
            R"({"role":"assistant","tool_calls":[{"type":"function",)"
            R"("function":{"name":"f","arguments":{"a":1}}}],"content":""})");
  const auto broken = ids("<tool_call>\n{\"name\": <|im_end|>");
  EXPECT_EQ(form.message_of(broken, before, row)["content"], "<tool_call>\n{\"name\": ");
}

}  // namespace
}  // namespace trl::run
