// Any bytes as what a model wrote, in each form of calls: a message, or none.
#include "text/response/response_parser.h"

#include "in_memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trl;
  static constexpr const char* kTemplates[] = {
      "<|im_start|> <tool_call> <function=f>",     "<|assistant|> <tool_call> <arg_key>",
      "<|im_start|> <tool_call> arguments",        "<|start_header_id|> tool_calls \"parameters\": ",
      "functions. <|channel|>commentary <|call|>", "<｜Assistant｜> <｜tool▁call▁begin｜> ```json"};
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const base::Json tools = base::Json::parse(
      R"([{"name": "f", "parameters": {"properties": {"n": {"type": ["integer", "object", "null"]}}}}])");
  for (const char* source : kTemplates) {
    const text::ResponseForm* const form = text::response_form(source);
    fuzz::require(form != nullptr);
    const auto message = text::ResponseParser(*form).parse(text, text.substr(size / 2), tools);
    if (!message) continue;
    fuzz::require((*message)["role"] == "assistant" && (*message)["content"].is_string());
    for (const base::Json& call : message->value("tool_calls", base::Json::array()))
      fuzz::require(call["function"]["name"].is_string() && call["function"].contains("arguments"));
  }
  return 0;
}
