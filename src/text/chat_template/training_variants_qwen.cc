// Variants of the templates of Qwen. From Qwen3 on every assistant turn keeps its thinking block, so that a
// longer conversation begins as a shorter one.
#include "text/chat_template/training_variant.h"

namespace trl::text {

namespace {

constexpr std::string_view kQwenEnd = "{%- endfor %}\n{%- if add_generation_prompt %}";
constexpr std::string_view kQwenHeader = R"('<|im_start|>assistant\n')";
constexpr std::string_view kQwenRoles = "{%- if (message.role == \"user\") or";
constexpr std::string_view kQwenContent = "{%- set content = render_content(message.content, true)|trim %}";
constexpr Edit kKeepThinking = {"loop.index0 > ns.last_query_index", "true"};

constexpr TrainingVariant kVariantsQwen[] = {
    {"qwen2_5", "cd8e9439f0570856fd70470bf8889ebd8b5d1107207f67a5efb46e342330527f", kQwenRoles, kQwenEnd,
     kMessageIsAssistant, "'<|im_start|>assistant'"},
    {"qwen3",
     "a55ee1b1660128b7098723e0abcd92caa0788061051c62d51cbe87d9cf1974d8",
     kQwenRoles,
     kQwenEnd,
     kMessageIsAssistant,
     kQwenHeader,
     {{kKeepThinking, {"loop.last or (not loop.last and reasoning_content)", "true"}}}},
    {"qwen3_instruct_2507", "64f85b198065d0fba2a81f37e10ed68161ce2c19a754c7100e67e0ca2ee9c326", kQwenRoles,
     kQwenEnd, kMessageIsAssistant, kQwenHeader},
    {"qwen3_5_think",
     "a4aee8afcf2e0711942cf848899be66016f8d14a889ff9ede07bca099c28f715",
     kQwenContent,
     kQwenEnd,
     kMessageIsAssistant,
     kQwenHeader,
     {{kKeepThinking}}},
    {"qwen3_5_nothink",
     "273d8e0e683b885071fb17e08d71e5f2a5ddfb5309756181681de4f5a1822d80",
     kQwenContent,
     kQwenEnd,
     kMessageIsAssistant,
     kQwenHeader,
     {{kKeepThinking}}},
    {"qwen3_6",
     "e84f32a23fdda27689f868aa4a1a5621f41133e51a48d7f3efcbea2839574259",
     kQwenContent,
     kQwenEnd,
     kMessageIsAssistant,
     kQwenHeader,
     {{kKeepThinking}}},
    {"qwen3_8",
     "c3cf9e34abf4f9e36c2d72165aa9c132d3e2a725b6c2586aaa3a8af9d7a81041",
     kQwenContent,
     kQwenEnd,
     kMessageIsAssistant,
     kQwenHeader,
     {{kKeepThinking}}},
    // Qwen2-VL has this template too
    {"qwen2_5_vl", "a0bc6f6fc7a29a80017a433e8f03a1cc1236e838a944a2d034295a60c4f2fddb",
     "<|im_start|>{{ message['role'] }}", "{% endfor %}{% if add_generation_prompt %}", kMessageIsAssistant,
     kQwenHeader},
    {"qwen3_vl", "3636d0f0bd6bef02654cdffdc447b79cb2cef8ab02cc75267345946291a489e4",
     "{%- if message.role == \"user\" %}\n        {{- '<|im_start|>'", kQwenEnd, kMessageIsAssistant,
     kQwenHeader},
};

}  // namespace

std::span<const TrainingVariant> training_variants_qwen() { return kVariantsQwen; }

}  // namespace trl::text
