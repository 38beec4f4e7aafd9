// Variants of the templates from Gemma to LLaVA.
#include "text/chat_template/training_variant.h"

namespace trl::text {

namespace {

constexpr std::string_view kTrimmedEnd = "{%- endfor -%}\n{%- if add_generation_prompt -%}";
constexpr std::string_view kGemmaBegin = "{{ '<start_of_turn>' + role";
constexpr std::string_view kGemmaHeader = R"('<start_of_turn>model\n')";
constexpr std::string_view kLfmHeader = R"('<|im_start|>assistant\n')";

constexpr TrainingVariant kVariantsGToL[] = {
    {"gemma", "ecd6ae513fe103f0eb62e8ab5bfa8d0fe45c1074fa398b089c93a7e70c15cfd6", kGemmaBegin, "{% endfor %}",
     kMessageIsAssistant, kGemmaHeader},
    {"gemma3", "7de1c58e208eda46e9c7f86397df37ec49883aeece39fb961e0a6b24088dd3c4", kGemmaBegin, kTrimmedEnd,
     kMessageIsAssistant, kGemmaHeader},
    // The model stops by naming who speaks next, so that this name belongs to its turn and is not written
    // again before the next one
    {"glm4moe",
     "44f815868bf02fa458dd2f741a338046f4bf45f398eb6d067766726b9d96cce3",
     "{%- if m.role == 'user' -%}",
     kTrimmedEnd,
     "m.role == 'assistant'",
     "'<|assistant|>'",
     {{{"<|user|>",
        "{{ '' if loop.previtem is defined and loop.previtem.role == 'assistant' else '<|user|>' }}"},
       {"{%- elif m.role == 'tool' -%}",
        "{{- '<|observation|>' if m.tool_calls else '<|system|>' if loop.nextitem is defined and "
        "loop.nextitem.role == 'system' else '<|user|>' -}}{%- elif m.role == 'tool' -%}"},
       {"{{- '<|observation|>' }}", ""},
       {"<|observation|>{% for",
        "{{ '' if loop.previtem is defined and loop.previtem.role == 'assistant' else '<|observation|>' }}"
        "{% for"},
       {"{%- elif m.role == 'system' -%}\n<|system|>",
        "{%- elif m.role == 'system' -%}"
        "{{ '' if loop.previtem is defined and loop.previtem.role == 'assistant' else '<|system|>' }}"}}}},
    {"gptoss", "a4c9919cbbd4acdd51ccffe22da049264b1b73e59055fa58811a99efbd7c8146",
     "{#- At this point only assistant", "{%- endfor -%}\n\n{#- Generation prompt", kMessageIsAssistant,
     "''"},
    // the mark after it would take its last line end
    {"idefics3",
     "0d7e56ca41705b79932de707b22bc855c3cfcefae62f1ac5e458560654883d2e",
     "{{message['role'].capitalize()}}",
     "{% endfor %}{% if add_generation_prompt %}",
     kMessageIsAssistant,
     "'Assistant:'",
     {{{"<end_of_utterance>\n", R"({{ '<end_of_utterance>\n' }})"}}}},
    {"lfm2", "cef187400d62a59507aab3a642ea9a8d2a2ef263562bc3430560e116945273cf",
     "{{- \"<|im_start|>\" + message[\"role\"]", kTrimmedEnd, kMessageIsAssistant, kLfmHeader},
    {"lfm2_v2", "5504d163d879bfb6fd4135b7fa3d56768b2e69dd718338f7b146750289f46ab0",
     "{{- \"<|im_start|>\" + message[\"role\"]", kTrimmedEnd, kMessageIsAssistant, kLfmHeader},
    // without a BOS none is written
    {"llama3",
     "ba03a121d097859c7b5b9cd03af99aafe95275210d2876f642ad9929a150f122",
     "{% set content = '<|start_header_id|>'",
     "{% endfor %}",
     kMessageIsAssistant,
     R"('<|end_header_id|>\n\n')",
     {{{"bos_token + content", "bos_token ~ content"}}}},
    // the blank after its end belongs to the turn that follows
    {"llava_next",
     "2c17243a977fd0643fb549a509a8e2684f45517df0f9f608d5893b719f16569f",
     "",
     "",
     "",
     "",
     {{{"{{ ' ' + message['content'][0]['text'] + '</s> '}}",
        "{% generation %}{{ ' ' + message['content'][0]['text'] }}</s>{% endgeneration %}{{ ' ' }}"}}}},
};

}  // namespace

std::span<const TrainingVariant> training_variants_g_to_l() { return kVariantsGToL; }

}  // namespace trl::text
