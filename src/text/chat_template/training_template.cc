// Training variants of known chat templates: the original with a few edits, so that the text is unchanged
// unless the variant says otherwise.
#include "text/chat_template/chat_template.h"

#include <fmt/format.h>

#include "base/files/hash.h"

namespace trl::text {

namespace {

constexpr std::string_view kMessageIsAssistant = "message['role'] == 'assistant'";
constexpr std::string_view kDeepSeekBegin =
    "{%- if message['role'] == 'user' %}{%- set ns.is_tool = false -%}";
constexpr std::string_view kDeepSeekEnd = "{%- endfor -%}{% if ns.is_tool %}";
constexpr std::string_view kTrimmedEnd = "{%- endfor -%}\n{%- if add_generation_prompt -%}";
constexpr std::string_view kGemmaBegin = "{{ '<start_of_turn>' + role";
constexpr std::string_view kGemmaHeader = R"('<start_of_turn>model\n')";
constexpr std::string_view kNemotronBegin =
    "{%- if message.role == \"assistant\" %}\n        {%- if message.reasoning_content";
constexpr std::string_view kPhiBegin = "{% if message['role'] == 'system'";
constexpr std::string_view kPhiHeader = R"('<|assistant|>\n')";

// Phi writes an EOS after the conversation; after an assistant's turn the model writes it too.
constexpr Edit kPhiEos[] = {{"{{ eos_token }}",
                             "{% if messages[-1]['role'] == 'assistant' %}{% generation %}{{ eos_token }}{% "
                             "endgeneration %}{% else %}{{ eos_token }}{% endif %}"}};

constexpr std::string_view kQwenEnd = "{%- endfor %}\n{%- if add_generation_prompt %}";
constexpr std::string_view kImHeader = R"('<|im_start|>assistant\n')";
constexpr std::string_view kQwenRoles = "{%- if (message.role == \"user\") or";
constexpr std::string_view kQwenContent = "{%- set content = render_content(message.content, true)|trim %}";
// Every assistant turn keeps its thinking block, so that a longer conversation begins as a shorter one.
constexpr Edit kKeepThinking = {"loop.index0 > ns.last_query_index", "true"};
constexpr Edit kThinkingStays[] = {kKeepThinking};

constexpr Edit kCohere2Edits[] = {{"{% endif %}<|END_OF_TURN_TOKEN|>{% endfor %}",
                                   "{% endif %}{% if role in ['system', 'user', 'assistant', 'chatbot'] "
                                   "%}<|END_OF_TURN_TOKEN|>{% endif %}{% endfor %}"}};
constexpr Edit kDeepseekR1DistillEdits[] = {{"'</think>' in content", "false"}};
constexpr Edit kDeepseekv3Edits[] = {
    {"tool['function']['arguments']", "tool['function']['arguments'] | tojson"}};
constexpr Edit kDiffusionGemmaEdits[] = {
    {R"({{- '<|channel>thought\n' + thinking_text + '\n<channel|>' -}})",
     R"({%- generation -%}{{- '<|channel>thought\n' + thinking_text + '\n<channel|>' -}}{%- endgeneration -%})"},
    {"{%- for tool_call in message.get('tool_calls') -%}",
     "{%- generation -%}{%- for tool_call in message.get('tool_calls') -%}"},
    {"{%- set ns.prev_message_type = 'tool_call' -%}",
     "{%- endgeneration -%}{%- set ns.prev_message_type = 'tool_call' -%}"},
    {"{{- captured_content -}}",
     "{%- if role == 'model' -%}{%- generation -%}{{- captured_content -}}{%- endgeneration -%}{%- else "
     "-%}{{- captured_content -}}{%- endif -%}"},
    {"and not next_nt.found) -%}\n            {{- '<turn|>\\n' -}}",
     "and not next_nt.found) -%}{%- if role == 'model' -%}{%- generation -%}{{- '<turn|>\\n' -}}{%- "
     "endgeneration -%}{%- else -%}{{- '<turn|>\\n' -}}{%- endif -%}"}};
constexpr Edit kGlm4moeEdits[] = {
    {"<|user|>",
     "{{ '' if loop.previtem is defined and loop.previtem.role == 'assistant' else '<|user|>' }}"},
    {"{%- elif m.role == 'tool' -%}",
     "{{- '<|observation|>' if m.tool_calls else '<|system|>' if loop.nextitem is defined and "
     "loop.nextitem.role == 'system' else '<|user|>' -}}{%- elif m.role == 'tool' -%}"},
    {"{{- '<|observation|>' }}", ""},
    {"<|observation|>{% for",
     "{{ '' if loop.previtem is defined and loop.previtem.role == 'assistant' else '<|observation|>' }}{% "
     "for"},
    {"{%- elif m.role == 'system' -%}\n<|system|>",
     "{%- elif m.role == 'system' -%}{{ '' if loop.previtem is defined and loop.previtem.role == 'assistant' "
     "else '<|system|>' }}"}};
constexpr Edit kEndOfUtterance[] = {{"<end_of_utterance>\n", R"({{ '<end_of_utterance>\n' }})"}};
constexpr Edit kLlama3Edits[] = {{"bos_token + content", "bos_token ~ content"}};
constexpr Edit kLlavaNextEdits[] = {
    {"{{ ' ' + message['content'][0]['text'] + '</s> '}}",
     "{% generation %}{{ ' ' + message['content'][0]['text'] }}</s>{% endgeneration %}{{ ' ' }}"}};
constexpr Edit kQwen3Edits[] = {kKeepThinking,
                                {"loop.last or (not loop.last and reasoning_content)", "true"}};

constexpr TrainingVariant kVariants[] = {
    {"cohere", "90c33aee14aa2a226127516d48ee9184c9b90745d4a04c484621ec2e82fb712c",
     "{% set content = message['content'] %}", "{% endfor %}", kMessageIsAssistant, "'<|CHATBOT_TOKEN|>'"},
    // only known roles end their turn
    {"cohere2", "2147c474f41b522b7296f74692b9f31e45f49a31465960576a9d321339c5915a",
     "<|START_OF_TURN_TOKEN|>{% if role ==", "{% endfor %}{% if add_generation_prompt %}",
     "role == 'assistant' or role == 'chatbot'", "'<|START_RESPONSE|>'", kCohere2Edits},
    // the reasoning stays
    {"deepseek_r1_distill", "56a1447ad31926fdc21fb07e56e5642bd9c850c4f52d8c8af7bbe5f079a84f5f",
     kDeepSeekBegin, kDeepSeekEnd, kMessageIsAssistant, "''", kDeepseekR1DistillEdits},
    // arguments may be given as an object
    {"deepseekv3", "563b1ce7d61d50a9b4c7439a912a1116f095b712df5b5e4d3e1116049874eb64", kDeepSeekBegin,
     kDeepSeekEnd, kMessageIsAssistant, "''", kDeepseekv3Edits},
    // the tools' answer is inside the model's turn and is not the model's
    {"diffusion_gemma", "9aeb7eac68ad87bba7567e9d4597ff203e5609f1b427d9e823437d0142cc61bf", "", "", "", "",
     kDiffusionGemmaEdits},
    {"gemma", "ecd6ae513fe103f0eb62e8ab5bfa8d0fe45c1074fa398b089c93a7e70c15cfd6", kGemmaBegin, "{% endfor %}",
     kMessageIsAssistant, kGemmaHeader},
    {"gemma3", "7de1c58e208eda46e9c7f86397df37ec49883aeece39fb961e0a6b24088dd3c4", kGemmaBegin, kTrimmedEnd,
     kMessageIsAssistant, kGemmaHeader},
    // The model stops by naming who speaks next, so that this name belongs to its turn and is not written
    // again before the next one
    {"glm4moe", "44f815868bf02fa458dd2f741a338046f4bf45f398eb6d067766726b9d96cce3",
     "{%- if m.role == 'user' -%}", kTrimmedEnd, "m.role == 'assistant'", "'<|assistant|>'", kGlm4moeEdits},
    {"gptoss", "a4c9919cbbd4acdd51ccffe22da049264b1b73e59055fa58811a99efbd7c8146",
     "{#- At this point only assistant", "{%- endfor -%}\n\n{#- Generation prompt", kMessageIsAssistant,
     "''"},
    // the mark after it would take its last line end
    {"idefics3", "0d7e56ca41705b79932de707b22bc855c3cfcefae62f1ac5e458560654883d2e",
     "{{message['role'].capitalize()}}", "{% endfor %}{% if add_generation_prompt %}", kMessageIsAssistant,
     "'Assistant:'", kEndOfUtterance},
    {"lfm2", "cef187400d62a59507aab3a642ea9a8d2a2ef263562bc3430560e116945273cf",
     "{{- \"<|im_start|>\" + message[\"role\"]", kTrimmedEnd, kMessageIsAssistant, kImHeader},
    {"lfm2_v2", "5504d163d879bfb6fd4135b7fa3d56768b2e69dd718338f7b146750289f46ab0",
     "{{- \"<|im_start|>\" + message[\"role\"]", kTrimmedEnd, kMessageIsAssistant, kImHeader},
    // without a BOS none is written
    {"llama3", "ba03a121d097859c7b5b9cd03af99aafe95275210d2876f642ad9929a150f122",
     "{% set content = '<|start_header_id|>'", "{% endfor %}", kMessageIsAssistant,
     R"('<|end_header_id|>\n\n')", kLlama3Edits},
    // the blank after its end belongs to the turn that follows
    {"llava_next", "2c17243a977fd0643fb549a509a8e2684f45517df0f9f608d5893b719f16569f", "", "", "", "",
     kLlavaNextEdits},
    // all of a turn is the model's, the recipients that it names too
    {"muse_glimmer", "cfc67e5f349f37690dfd31ed1f18bc4442a9dd32fe39a648f993cb4eb3cae678",
     "{%- set role = message['role'] -%}", kTrimmedEnd, kMessageIsAssistant, "''"},
    {"nemotron_3_nano", "ab7813c3abdd9cb655905a410728b26c7884eca45ddfab8d9f931553485a7862",
     "{%- if message.role == \"assistant\" %}", "{%- endfor %}\n\n{%- if add_generation_prompt %}",
     kMessageIsAssistant, kImHeader},
    {"nemotron_3_super", "575fb74f54ed264df9047d0ecce3c98938aae953fb4f50356675706264cbb68a",
     "{%- if message.role == \"assistant\" %}", "{%- endfor %}\n\n{%- if add_generation_prompt %}",
     kMessageIsAssistant, kImHeader},
    {"nemotron_3_ultra", "82753bef5cedc4932c1ed509b5c9a12be680fd86d1adb65bc3f7398d11c8eebc", kNemotronBegin,
     kQwenEnd, kMessageIsAssistant, kImHeader},
    {"nemotron_3_5_lightning", "58933db77d3099b4f78c55a38347a72e1ea05b97d6bd8f38775303dc0194e0a9",
     kNemotronBegin, kQwenEnd, kMessageIsAssistant, kImHeader},
    {"phi3", "dcaee66df77bfbb789ec541fe713218da30225a526f1db97138fc39ee6dc56aa", kPhiBegin, "{% endfor %}",
     kMessageIsAssistant, kPhiHeader, kPhiEos},
    {"phi3_5", "78d976a442bcde2f0be15aafbb8e3050e1104f86732266f68403251b89982a90", kPhiBegin, "{% endfor %}",
     kMessageIsAssistant, kPhiHeader, kPhiEos},
    // the mark after it would take its last line end
    {"smolvlm", "830005085ddd94cec605b6e21b885b28ffad6e3f82ee6a212c523533e8f04f01",
     "{{message['role'] | capitalize}}", "{% endfor %}{% if add_generation_prompt %}", kMessageIsAssistant,
     "'Assistant:'", kEndOfUtterance},
    {"qwen2_5", "cd8e9439f0570856fd70470bf8889ebd8b5d1107207f67a5efb46e342330527f", kQwenRoles, kQwenEnd,
     kMessageIsAssistant, "'<|im_start|>assistant'"},
    {"qwen3", "a55ee1b1660128b7098723e0abcd92caa0788061051c62d51cbe87d9cf1974d8", kQwenRoles, kQwenEnd,
     kMessageIsAssistant, kImHeader, kQwen3Edits},
    {"qwen3_instruct_2507", "64f85b198065d0fba2a81f37e10ed68161ce2c19a754c7100e67e0ca2ee9c326", kQwenRoles,
     kQwenEnd, kMessageIsAssistant, kImHeader},
    {"qwen3_5_think", "a4aee8afcf2e0711942cf848899be66016f8d14a889ff9ede07bca099c28f715", kQwenContent,
     kQwenEnd, kMessageIsAssistant, kImHeader, kThinkingStays},
    {"qwen3_5_nothink", "273d8e0e683b885071fb17e08d71e5f2a5ddfb5309756181681de4f5a1822d80", kQwenContent,
     kQwenEnd, kMessageIsAssistant, kImHeader, kThinkingStays},
    {"qwen3_6", "e84f32a23fdda27689f868aa4a1a5621f41133e51a48d7f3efcbea2839574259", kQwenContent, kQwenEnd,
     kMessageIsAssistant, kImHeader, kThinkingStays},
    {"qwen3_8", "c3cf9e34abf4f9e36c2d72165aa9c132d3e2a725b6c2586aaa3a8af9d7a81041", kQwenContent, kQwenEnd,
     kMessageIsAssistant, kImHeader, kThinkingStays},
    // Qwen2-VL has this template too
    {"qwen2_5_vl", "a0bc6f6fc7a29a80017a433e8f03a1cc1236e838a944a2d034295a60c4f2fddb",
     "<|im_start|>{{ message['role'] }}", "{% endfor %}{% if add_generation_prompt %}", kMessageIsAssistant,
     kImHeader},
    {"qwen3_vl", "3636d0f0bd6bef02654cdffdc447b79cb2cef8ab02cc75267345946291a489e4",
     "{%- if message.role == \"user\" %}\n        {{- '<|im_start|>'", kQwenEnd, kMessageIsAssistant,
     kImHeader},
};

void replace_all(std::string& text, std::string_view find, std::string_view replacement) {
  for (size_t at = text.find(find); at != std::string::npos; at = text.find(find, at + replacement.size()))
    text.replace(at, find.size(), replacement);
}

}  // namespace

std::string apply_training_variant(const TrainingVariant& variant, std::string original) {
  std::string text = std::move(original);
  for (const Edit& edit : variant.edits) replace_all(text, edit.find, edit.replacement);
  if (variant.turn_begin.empty()) return text;
  replace_all(text, variant.turn_begin, "{%- set turn -%}" + std::string(variant.turn_begin));
  replace_all(
      text, variant.turn_end,
      fmt::format("{{%- endset -%}}{{%- set header = {} -%}}{{%- if {} -%}}{{%- set start = "
                  "turn.find(header) + header | length -%}}{{{{- turn[:start] -}}}}{{%- generation -%}}{{{{- "
                  "turn[start:] -}}}}{{%- endgeneration -%}}{{%- else -%}}{{{{- turn -}}}}{{%- endif -%}}{}",
                  variant.header, variant.assistant, variant.turn_end));
  return text;
}

const TrainingVariant* find_training_variant(std::string_view name_or_sha256) {
  for (const TrainingVariant& variant : kVariants)
    if (variant.name == name_or_sha256 || variant.sha256 == name_or_sha256) return &variant;
  return nullptr;
}

std::optional<std::string> training_template(std::string_view source) {
  const TrainingVariant* variant = find_training_variant(base::sha256_hex(source));
  if (variant == nullptr) return std::nullopt;
  return apply_training_variant(*variant, std::string(source));
}

}  // namespace trl::text
