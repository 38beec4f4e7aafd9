#include "model/gguf_names.h"

#include <fmt/format.h>

#include "base/text/number.h"

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
                           {&Names::gate_up, "ffn_up"},  // before up, which also has a name then
                           {&Names::up, "ffn_up"},
                           {&Names::down, "ffn_down"},
                           {&Names::attention_norm, "attn_norm"},
                           {&Names::attention_post_norm, "post_attention_norm"},
                           {&Names::mlp_norm, "ffn_norm"},
                           {&Names::mlp_post_norm, "post_ffw_norm"},
                           {&Names::router, "ffn_gate_inp"},
                           {&Names::shared_router, "ffn_gate_inp_shexp"},
                           {&Names::shared_gate, "ffn_gate_shexp"},
                           {&Names::shared_up, "ffn_up_shexp"},
                           {&Names::shared_down, "ffn_down_shexp"}};
constexpr Pair kExpert[] = {{&Names::expert_gate, "ffn_gate_exps"},
                            {&Names::expert_up, "ffn_up_exps"},
                            {&Names::expert_down, "ffn_down_exps"}};

constexpr std::string_view kExperts = "_exps";

template <size_t N>
std::string_view find(const Pair (&pairs)[N], const Names& names, std::string_view part) {
  for (const Pair& pair : pairs) {
    if (!part.empty() && part == names.*pair.part) return pair.theirs;
  }
  return {};
}

template <size_t N>
std::string_view find_theirs(const Pair (&pairs)[N], const Names& names, std::string_view theirs) {
  for (const Pair& pair : pairs) {
    if (theirs == pair.theirs && !(names.*pair.part).empty()) return names.*pair.part;
  }
  return {};
}

// Removes "mlp.experts.5." from the beginning, by the pattern "mlp.experts.{}."; returns the number, or -1 if
// it is not there.
int64_t take_number(std::string_view& text, std::string_view pattern) {
  const std::string_view start = pattern.substr(0, pattern.find('{'));
  const size_t dot = text.starts_with(start) ? text.find('.', start.size()) : text.npos;
  if (dot == text.npos) return -1;
  const int64_t number = base::parse_int64(text.substr(start.size(), dot - start.size())).value_or(-1);
  if (number >= 0) text.remove_prefix(dot + 1);
  return number;
}

}  // namespace

GgufPlace gguf_place(const Family& family, std::string_view name) {
  const size_t last = name.rfind('.');
  if (last == std::string_view::npos) return {};
  std::string_view part = name.substr(0, last);
  const std::string_view kind = name.substr(last);  // ".weight", ".bias"
  const std::string_view outer = find(kOuter, family.names, part);
  if (!outer.empty()) return {fmt::format("{}{}", outer, kind)};
  const int64_t layer = take_number(part, family.names.layer);
  if (layer < 0) return {};
  const int64_t expert = family.names.router.empty() ? -1 : take_number(part, family.names.expert);
  const std::string_view theirs =
      expert < 0 ? find(kInner, family.names, part) : find(kExpert, family.names, part);
  if (theirs.empty()) return {};
  return {fmt::format("blk.{}.{}{}", layer, theirs, kind), expert};
}

std::string name_of_gguf(const Family& family, std::string_view name, int64_t expert) {
  const Names& names = family.names;
  const size_t last = name.rfind('.');
  if (last == std::string_view::npos) return {};
  std::string_view part = name.substr(0, last);
  const std::string_view kind = name.substr(last);
  const std::string_view outer = find_theirs(kOuter, names, part);
  if (!outer.empty()) return fmt::format("{}{}", outer, kind);
  const int64_t layer = take_number(part, "blk.{}.");
  const bool in_experts = expert >= 0 && !names.router.empty();
  const std::string_view ours =
      in_experts ? find_theirs(kExpert, names, part) : find_theirs(kInner, names, part);
  if (layer < 0 || ours.empty()) return {};
  const std::string prefix = fmt::format(fmt::runtime(names.layer), layer);
  return prefix + (in_experts ? fmt::format(fmt::runtime(names.expert), expert) : "") +
         fmt::format("{}{}", ours, kind);
}

GgufPlace place_of_single_expert(std::string_view name) {
  std::string_view part = name;
  const int64_t layer = take_number(part, "blk.{}.");
  for (const Pair& pair : kExpert) {
    const std::string_view alone = pair.theirs.substr(0, pair.theirs.size() - kExperts.size());
    std::string_view rest = part;
    const int64_t expert = take_number(rest, fmt::format("{}.{{}}.", alone));
    if (layer >= 0 && expert >= 0) return {fmt::format("blk.{}.{}.{}", layer, pair.theirs, rest), expert};
  }
  return {};
}

std::string single_expert_name(const GgufPlace& place) {
  const size_t at = place.name.rfind(kExperts);
  return fmt::format("{}.{}{}", place.name.substr(0, at), place.expert,
                     place.name.substr(at + kExperts.size()));
}

}  // namespace trl::model
