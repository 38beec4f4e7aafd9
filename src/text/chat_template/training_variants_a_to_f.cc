// Variants of the templates from Cohere to DiffusionGemma.
#include "text/chat_template/training_variant.h"

namespace trl::text {

namespace {

constexpr std::string_view kDeepSeekBegin =
    "{%- if message['role'] == 'user' %}{%- set ns.is_tool = false -%}";
constexpr std::string_view kDeepSeekEnd = "{%- endfor -%}{% if ns.is_tool %}";

constexpr TrainingVariant kVariantsAToF[] = {
    {"cohere", "90c33aee14aa2a226127516d48ee9184c9b90745d4a04c484621ec2e82fb712c",
     "{% set content = message['content'] %}", "{% endfor %}", kMessageIsAssistant, "'<|CHATBOT_TOKEN|>'"},
    // only known roles end their turn
    {"cohere2",
     "2147c474f41b522b7296f74692b9f31e45f49a31465960576a9d321339c5915a",
     "<|START_OF_TURN_TOKEN|>{% if role ==",
     "{% endfor %}{% if add_generation_prompt %}",
     "role == 'assistant' or role == 'chatbot'",
     "'<|START_RESPONSE|>'",
     {{{"{% endif %}<|END_OF_TURN_TOKEN|>{% endfor %}",
        "{% endif %}{% if role in ['system', 'user', 'assistant', 'chatbot'] %}<|END_OF_TURN_TOKEN|>{% endif "
        "%}{% endfor %}"}}}},
    // the reasoning stays
    {"deepseek_r1_distill",
     "56a1447ad31926fdc21fb07e56e5642bd9c850c4f52d8c8af7bbe5f079a84f5f",
     kDeepSeekBegin,
     kDeepSeekEnd,
     kMessageIsAssistant,
     "''",
     {{{"'</think>' in content", "false"}}}},
    // arguments may be given as an object
    {"deepseekv3",
     "563b1ce7d61d50a9b4c7439a912a1116f095b712df5b5e4d3e1116049874eb64",
     kDeepSeekBegin,
     kDeepSeekEnd,
     kMessageIsAssistant,
     "''",
     {{{"tool['function']['arguments']", "tool['function']['arguments'] | tojson"}}}},
    // the tools' answer is inside the model's turn and is not the model's
    {"diffusion_gemma",
     "9aeb7eac68ad87bba7567e9d4597ff203e5609f1b427d9e823437d0142cc61bf",
     "",
     "",
     "",
     "",
     {{{R"({{- '<|channel>thought\n' + thinking_text + '\n<channel|>' -}})",
        R"({%- generation -%}{{- '<|channel>thought\n' + thinking_text + '\n<channel|>' -}}{%- endgeneration -%})"},
       {"{%- for tool_call in message.get('tool_calls') -%}",
        "{%- generation -%}{%- for tool_call in message.get('tool_calls') -%}"},
       {"{%- set ns.prev_message_type = 'tool_call' -%}",
        "{%- endgeneration -%}{%- set ns.prev_message_type = 'tool_call' -%}"},
       {"{{- captured_content -}}",
        "{%- if role == 'model' -%}{%- generation -%}{{- captured_content -}}{%- endgeneration -%}"
        "{%- else -%}{{- captured_content -}}{%- endif -%}"},
       {"and not next_nt.found) -%}\n            {{- '<turn|>\\n' -}}",
        "and not next_nt.found) -%}{%- if role == 'model' -%}{%- generation -%}{{- '<turn|>\\n' -}}"
        "{%- endgeneration -%}{%- else -%}{{- '<turn|>\\n' -}}{%- endif -%}"}}}},
};

}  // namespace

std::span<const TrainingVariant> training_variants_a_to_f() { return kVariantsAToF; }

}  // namespace trl::text
