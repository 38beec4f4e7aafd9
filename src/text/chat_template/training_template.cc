// Training variants of known chat templates: the original with a few edits, so that the text is unchanged
// unless the variant says otherwise.
#include "base/files/hash.h"
#include "text/chat_template/chat_template.h"
#include "text/chat_template/training_variant.h"

namespace trl::text {

namespace {

void replace_all(std::string& text, std::string_view find, std::string_view replacement) {
  for (size_t at = text.find(find); at != std::string::npos; at = text.find(find, at + replacement.size()))
    text.replace(at, find.size(), replacement);
}

}  // namespace

std::string apply_training_variant(const TrainingVariant& variant, std::string original) {
  std::string text = std::move(original);
  for (const Edit& edit : variant.edits) {
    if (!edit.find.empty()) replace_all(text, edit.find, edit.replacement);
  }
  if (variant.turn_begin.empty()) return text;
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

const TrainingVariant* find_training_variant(std::string_view name_or_sha256) {
  for (const auto& variants : {training_variants_a_to_f(), training_variants_g_to_l(),
                               training_variants_m_to_z(), training_variants_qwen()}) {
    for (const TrainingVariant& variant : variants) {
      if (variant.name == name_or_sha256 || variant.sha256 == name_or_sha256) return &variant;
    }
  }
  return nullptr;
}

std::optional<std::string> training_template(std::string_view source) {
  const TrainingVariant* variant = find_training_variant(base::sha256_hex(source));
  if (variant == nullptr) return std::nullopt;
  return apply_training_variant(*variant, std::string(source));
}

}  // namespace trl::text
