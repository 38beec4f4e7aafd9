#include "text/response/response_form.h"

#include <algorithm>

namespace trl::text {

namespace {

using enum FieldContent;

constexpr std::string_view kToolCalls = "tool_calls", kContent = "content";
constexpr std::string_view kImAnchor = R"(<\|im_start\|>assistant\n)", kImEnd = R"(<\|im_end\|>\s*)";
constexpr std::string_view kCallEnd = R"(</tool_call>\s*)";
constexpr ResponseField kReasoning = {"reasoning_content", "<think>", R"(</think>\s*)", text, "",
                                      "<think>",           "</think>"};

constexpr ResponseField kJsonFields[] = {
    kReasoning, {kToolCalls, "<tool_call>", kCallEnd, call, "", "<tool_call>"}, {kContent, "", kImEnd}};

constexpr ResponseField kTagFields[] = {kReasoning,
                                        {kToolCalls, R"(<tool_call>\s*<function=([^\n>]+)>)", kCallEnd, tags,
                                         R"(<parameter=([^>\n]+)>\s*(.*?)\s*</parameter>)", "<tool_call>"},
                                        {kContent, "", kImEnd}};

constexpr ResponseField kGlmFields[] = {
    kReasoning,
    {kToolCalls, R"(<tool_call>(\S+)\n?)", kCallEnd, tags,
     R"(<arg_key>([^<]+)</arg_key>\s*\n<arg_value>(.*?)</arg_value>)", "<tool_call>"},
    {kContent, "", R"(<\|(?:user|observation)\|>\s*|$)"}};

constexpr ResponseField kLlamaFields[] = {{kToolCalls, R"re(\{"name":\s*"([^"]+)",\s*"parameters":\s*)re",
                                           R"(\}<\|eot_id\|>\s*)", arguments, "", R"({"name":)"},
                                          {kContent, "", R"(<\|eot_id\|>\s*)"}};

constexpr ResponseField kGptOssFields[] = {
    {"thinking", R"(<\|channel\|>analysis<\|message\|>)", R"(<\|end\|>\s*)"},
    {kContent, R"(<\|channel\|>final<\|message\|>)", R"(<\|return\|>\s*)"},
    {kToolCalls, R"(to=functions\.(\S+?)<\|channel\|>commentary\s+json<\|message\|>)", R"(<\|call\|>\s*)",
     arguments}};

constexpr ResponseField kDeepSeekFields[] = {
    kReasoning,
    {kToolCalls,
     R"((?:<｜tool▁calls▁begin｜>)?<｜tool▁call▁begin｜>function<｜tool▁sep｜>([^\n]+)\n```json\n)",
     R"(\n```<｜tool▁call▁end｜>\s*(?:<｜tool▁calls▁end｜>)?)", arguments, "", "<｜tool▁call"},
    {kContent, "", R"(<｜end▁of▁sentence｜>\s*)"}};

constexpr std::string_view kTagMarks[] = {"<tool_call>", "<function=", "<|im_start|>"};
constexpr std::string_view kGlmMarks[] = {"<tool_call>", "<arg_key>", "<|assistant|>"};
constexpr std::string_view kJsonMarks[] = {"<tool_call>", "arguments", "<|im_start|>"};
constexpr std::string_view kLlamaMarks[] = {"<|start_header_id|>", "\"parameters\": ", "tool_calls"};
constexpr std::string_view kGptOssMarks[] = {"functions.", "<|channel|>commentary", "<|call|>"};
constexpr std::string_view kDeepSeekMarks[] = {"<｜tool▁call▁begin｜>", "```json", "<｜Assistant｜>"};

// The first whose marks a template contains.
constexpr ResponseForm kForms[] = {
    {"tags", kImAnchor, kTagFields, kTagMarks},
    {"glm", R"(<\|assistant\|>)", kGlmFields, kGlmMarks},
    {"json", kImAnchor, kJsonFields, kJsonMarks},
    {"llama3", R"(<\|start_header_id\|>assistant<\|end_header_id\|>\n\n)", kLlamaFields, kLlamaMarks},
    {"gpt-oss", R"(<\|start\|>assistant)", kGptOssFields, kGptOssMarks},
    {"deepseek", "<｜Assistant｜>", kDeepSeekFields, kDeepSeekMarks},
};

}  // namespace

const ResponseForm* response_form(std::string_view chat_template) {
  const auto* const found = std::ranges::find_if(kForms, [&](const ResponseForm& form) {
    return std::ranges::all_of(form.marks, [&](std::string_view mark) {
      return chat_template.find(mark) != std::string_view::npos;
    });
  });
  return found == std::end(kForms) ? nullptr : found;
}

}  // namespace trl::text
