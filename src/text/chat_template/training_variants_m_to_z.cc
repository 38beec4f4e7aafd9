// Variants of the templates of Muse, Nemotron, Phi and SmolVLM.
#include "text/chat_template/training_variant.h"

namespace trl::text {

namespace {

constexpr std::string_view kNemotronBegin =
    "{%- if message.role == \"assistant\" %}\n        {%- if message.reasoning_content";
constexpr std::string_view kNemotronHeader = R"('<|im_start|>assistant\n')";
constexpr std::string_view kPhiBegin = "{% if message['role'] == 'system'";
constexpr std::string_view kPhiHeader = R"('<|assistant|>\n')";

// Phi writes an EOS after the conversation; after an assistant's turn the model writes it too.
constexpr Edit kPhiEos = {"{{ eos_token }}",
                          "{% if messages[-1]['role'] == 'assistant' %}{% generation %}{{ eos_token }}"
                          "{% endgeneration %}{% else %}{{ eos_token }}{% endif %}"};

constexpr TrainingVariant kVariantsMToZ[] = {
    // all of a turn is the model's, the recipients that it names too
    {"muse_glimmer", "cfc67e5f349f37690dfd31ed1f18bc4442a9dd32fe39a648f993cb4eb3cae678",
     "{%- set role = message['role'] -%}", "{%- endfor -%}\n{%- if add_generation_prompt -%}",
     kMessageIsAssistant, "''"},
    {"nemotron_3_nano", "ab7813c3abdd9cb655905a410728b26c7884eca45ddfab8d9f931553485a7862",
     "{%- if message.role == \"assistant\" %}", "{%- endfor %}\n\n{%- if add_generation_prompt %}",
     kMessageIsAssistant, kNemotronHeader},
    {"nemotron_3_super", "575fb74f54ed264df9047d0ecce3c98938aae953fb4f50356675706264cbb68a",
     "{%- if message.role == \"assistant\" %}", "{%- endfor %}\n\n{%- if add_generation_prompt %}",
     kMessageIsAssistant, kNemotronHeader},
    {"nemotron_3_ultra", "82753bef5cedc4932c1ed509b5c9a12be680fd86d1adb65bc3f7398d11c8eebc", kNemotronBegin,
     "{%- endfor %}\n{%- if add_generation_prompt %}", kMessageIsAssistant, kNemotronHeader},
    {"nemotron_3_5_lightning", "58933db77d3099b4f78c55a38347a72e1ea05b97d6bd8f38775303dc0194e0a9",
     kNemotronBegin, "{%- endfor %}\n{%- if add_generation_prompt %}", kMessageIsAssistant, kNemotronHeader},
    {"phi3",
     "dcaee66df77bfbb789ec541fe713218da30225a526f1db97138fc39ee6dc56aa",
     kPhiBegin,
     "{% endfor %}",
     kMessageIsAssistant,
     kPhiHeader,
     {{kPhiEos}}},
    {"phi3_5",
     "78d976a442bcde2f0be15aafbb8e3050e1104f86732266f68403251b89982a90",
     kPhiBegin,
     "{% endfor %}",
     kMessageIsAssistant,
     kPhiHeader,
     {{kPhiEos}}},
    // the mark after it would take its last line end
    {"smolvlm",
     "830005085ddd94cec605b6e21b885b28ffad6e3f82ee6a212c523533e8f04f01",
     "{{message['role'] | capitalize}}",
     "{% endfor %}{% if add_generation_prompt %}",
     kMessageIsAssistant,
     "'Assistant:'",
     {{{"<end_of_utterance>\n", R"({{ '<end_of_utterance>\n' }})"}}}},
};

}  // namespace

std::span<const TrainingVariant> training_variants_m_to_z() { return kVariantsMToZ; }

}  // namespace trl::text
