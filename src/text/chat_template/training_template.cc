// Training variants of known chat templates: the original with a few edits that mark what the model itself
// writes. The loop's body is collected in a variable, and for an assistant's turn the part behind its header
// is printed inside a generation block, so that the text stays what it was.
#include <array>

#include "base/hash.h"
#include "text/chat_template/chat_template.h"

namespace trl::text {

namespace {

struct Edit {
  std::string_view find;  // every occurrence
  std::string_view replacement;
};

struct Variant {
  std::string_view sha256;      // of the original
  std::string_view turn_begin;  // what a turn's text begins with, inside the message loop; occurs once
  std::string_view turn_end;    // the loop's end; occurs once
  std::string_view assistant;   // the condition that holds for an assistant's turn
  std::string_view
      header;  // a Jinja string: where the header that the model does not write ends; '' without one
  std::array<Edit, 2> edits = {};
};

constexpr std::string_view kRoleItem = "message['role'] == 'assistant'";

// Phi writes an EOS after the conversation; behind an assistant's turn it is the model's too.
constexpr Edit kPhiEos = {"{{ eos_token }}",
                          "{% if messages[-1]['role'] == 'assistant' %}{% generation %}{{ eos_token }}"
                          "{% endgeneration %}{% else %}{{ eos_token }}{% endif %}"};

constexpr Variant kVariants[] = {
    // Llama 3
    {"ba03a121d097859c7b5b9cd03af99aafe95275210d2876f642ad9929a150f122",
     "{% set content = '<|start_header_id|>'", "{% endfor %}", kRoleItem, R"('<|end_header_id|>\n\n')"},
    // Qwen2.5
    {"cd8e9439f0570856fd70470bf8889ebd8b5d1107207f67a5efb46e342330527f",
     "{%- if (message.role == \"user\") or", "{%- endfor %}\n{%- if add_generation_prompt %}", kRoleItem,
     "'<|im_start|>assistant'"},
    // Qwen3: every assistant turn keeps its thinking block, so that a longer conversation begins as a shorter
    // one
    {"a55ee1b1660128b7098723e0abcd92caa0788061051c62d51cbe87d9cf1974d8",
     "{%- if (message.role == \"user\") or",
     "{%- endfor %}\n{%- if add_generation_prompt %}",
     kRoleItem,
     R"('<|im_start|>assistant\n')",
     {{{"loop.index0 > ns.last_query_index", "true"},
       {"loop.last or (not loop.last and reasoning_content)", "true"}}}},
    // Qwen3 2507 (instruct)
    {"64f85b198065d0fba2a81f37e10ed68161ce2c19a754c7100e67e0ca2ee9c326",
     "{%- if (message.role == \"user\") or", "{%- endfor %}\n{%- if add_generation_prompt %}", kRoleItem,
     R"('<|im_start|>assistant\n')"},
    // Gemma, Gemma 2
    {"ecd6ae513fe103f0eb62e8ab5bfa8d0fe45c1074fa398b089c93a7e70c15cfd6", "{{ '<start_of_turn>' + role",
     "{% endfor %}", kRoleItem, R"('<start_of_turn>model\n')"},
    // Gemma 3
    {"7de1c58e208eda46e9c7f86397df37ec49883aeece39fb961e0a6b24088dd3c4", "{{ '<start_of_turn>' + role",
     "{%- endfor -%}\n{%- if add_generation_prompt -%}", kRoleItem, R"('<start_of_turn>model\n')"},
    // Phi-3
    {"dcaee66df77bfbb789ec541fe713218da30225a526f1db97138fc39ee6dc56aa",
     "{% if message['role'] == 'system'",
     "{% endfor %}",
     kRoleItem,
     R"('<|assistant|>\n')",
     {{kPhiEos}}},
    // Phi-3.5
    {"78d976a442bcde2f0be15aafbb8e3050e1104f86732266f68403251b89982a90",
     "{% if message['role'] == 'system'",
     "{% endfor %}",
     kRoleItem,
     R"('<|assistant|>\n')",
     {{kPhiEos}}},
    // DeepSeek-V3: arguments may be given as an object
    {"563b1ce7d61d50a9b4c7439a912a1116f095b712df5b5e4d3e1116049874eb64",
     "{%- if message['role'] == 'user' %}{%- set ns.is_tool = false -%}",
     "{%- endfor -%}{% if ns.is_tool %}",
     kRoleItem,
     "''",
     {{{"tool['function']['arguments']", "tool['function']['arguments'] | tojson"}}}},
    // DeepSeek-R1-Distill: the reasoning stays
    {"56a1447ad31926fdc21fb07e56e5642bd9c850c4f52d8c8af7bbe5f079a84f5f",
     "{%- if message['role'] == 'user' %}{%- set ns.is_tool = false -%}",
     "{%- endfor -%}{% if ns.is_tool %}",
     kRoleItem,
     "''",
     {{{"'</think>' in content", "false"}}}},
    // GPT-OSS
    {"a4c9919cbbd4acdd51ccffe22da049264b1b73e59055fa58811a99efbd7c8146", "{#- At this point only assistant",
     "{%- endfor -%}\n\n{#- Generation prompt", kRoleItem, "''"},
    // Cohere (Aya)
    {"90c33aee14aa2a226127516d48ee9184c9b90745d4a04c484621ec2e82fb712c",
     "{% set content = message['content'] %}", "{% endfor %}", kRoleItem, "'<|CHATBOT_TOKEN|>'"},
    // Cohere 2: only known roles end their turn
    {"2147c474f41b522b7296f74692b9f31e45f49a31465960576a9d321339c5915a",
     "<|START_OF_TURN_TOKEN|>{% if role ==",
     "{% endfor %}{% if add_generation_prompt %}",
     "role == 'assistant' or role == 'chatbot'",
     "'<|START_RESPONSE|>'",
     {{{"{% endif %}<|END_OF_TURN_TOKEN|>{% endfor %}",
        "{% endif %}{% if role in ['system', 'user', 'assistant', 'chatbot'] %}<|END_OF_TURN_TOKEN|>{% endif "
        "%}"
        "{% endfor %}"}}}},
    // LFM2
    {"cef187400d62a59507aab3a642ea9a8d2a2ef263562bc3430560e116945273cf",
     "{{- \"<|im_start|>\" + message[\"role\"]", "{%- endfor -%}\n{%- if add_generation_prompt -%}",
     kRoleItem, R"('<|im_start|>assistant\n')"},
};

void replace_all(std::string& text, std::string_view find, std::string_view replacement) {
  for (size_t at = text.find(find); at != std::string::npos; at = text.find(find, at + replacement.size()))
    text.replace(at, find.size(), replacement);
}

std::string apply(const Variant& variant, std::string text) {
  for (const Edit& edit : variant.edits) {
    if (!edit.find.empty()) replace_all(text, edit.find, edit.replacement);
  }
  replace_all(text, variant.turn_begin, "{%- set turn -%}" + std::string(variant.turn_begin));
  std::string end = "{%- endset -%}{%- set header = ";
  end += variant.header;
  end += " -%}{%- if ";
  end += variant.assistant;
  end +=
      " -%}{%- set start = turn.find(header) + header | length -%}{{- turn[:start] -}}"
      "{%- generation -%}{{- turn[start:] -}}{%- endgeneration -%}"
      "{%- else -%}{{- turn -}}{%- endif -%}";
  end += variant.turn_end;
  replace_all(text, variant.turn_end, end);
  return text;
}

}  // namespace

std::optional<std::string> training_template(std::string_view source) {
  const std::string digest = base::sha256_hex(source);
  for (const Variant& variant : kVariants) {
    if (variant.sha256 == digest) return apply(variant, std::string(source));
  }
  return std::nullopt;
}

}  // namespace trl::text
