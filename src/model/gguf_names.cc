#include "model/gguf_names.h"

#include <fmt/format.h>

namespace trl::model {

namespace {

struct Pair {
  std::string_view Names::*part;
  std::string_view theirs;
};

constexpr Pair kOuter[] = {{&Names::embedding, "token_embd"},
                           {&Names::positions, "position_embd"},
                           {&Names::final_norm, "output_norm"},
                           {&Names::head, "output"}};
constexpr Pair kInner[] = {{&Names::q, "attn_q"},
                           {&Names::k, "attn_k"},
                           {&Names::v, "attn_v"},
                           {&Names::qkv, "attn_qkv"},
                           {&Names::attention_out, "attn_output"},
                           {&Names::q_norm, "attn_q_norm"},
                           {&Names::k_norm, "attn_k_norm"},
                           {&Names::gate, "ffn_gate"},
                           {&Names::up, "ffn_up"},
                           {&Names::gate_up, "ffn_up"},
                           {&Names::down, "ffn_down"},
                           {&Names::attention_norm, "attn_norm"},
                           {&Names::attention_post_norm, "post_attention_norm"},
                           {&Names::mlp_norm, "ffn_norm"},
                           {&Names::mlp_post_norm, "post_ffw_norm"}};

}  // namespace

std::string gguf_name(const Family& family, std::string_view name) {
  const size_t last = name.rfind('.');
  if (last == std::string_view::npos) return {};
  const std::string_view part = name.substr(0, last), kind = name.substr(last);  // ".weight", ".bias"
  for (const Pair& pair : kOuter) {
    if (part == family.names.*pair.part) return fmt::format("{}{}", pair.theirs, kind);
  }
  const std::string_view start = family.names.layer.substr(0, family.names.layer.find('{'));
  const size_t dot = name.find('.', start.size());
  if (!name.starts_with(start) || dot >= last) return {};
  for (const Pair& pair : kInner) {
    if (part.substr(dot + 1) == family.names.*pair.part)
      return fmt::format("blk.{}.{}{}", name.substr(start.size(), dot - start.size()), pair.theirs, kind);
  }
  return {};
}

namespace {
// Model type, and llama.cpp's name. It has no architecture of Mistral's own: windows apart, that is a Llama.
constexpr std::pair<std::string_view, std::string_view> kArchitectures[] = {
    {"llama", "llama"}, {"mistral", "llama"}, {"qwen2", "qwen2"}, {"qwen3", "qwen3"}};
}  // namespace

bool is_gguf_family(std::string_view model_type) { return !gguf_architecture(model_type).empty(); }

std::string gguf_families() {
  std::string names;
  for (const auto& [model_type, architecture] : kArchitectures)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", model_type);
  return names;
}

std::string_view gguf_architecture(std::string_view model_type) {
  for (const auto& [known, architecture] : kArchitectures) {
    if (known == model_type) return architecture;
  }
  return {};
}

RowOrder::RowOrder(const ModelConfig& config)
    : head_dim_(config.head_dim), half_(config.head_dim / 2), pairs_(config.family->gguf_interleaved_rope) {}

bool RowOrder::differs(std::string_view name) const {
  return pairs_ && (name.find(".q_proj.") != name.npos || name.find(".k_proj.") != name.npos);
}

}  // namespace trl::model
