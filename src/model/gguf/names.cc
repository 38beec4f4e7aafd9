#include "model/gguf/names.h"

#include <fmt/format.h>
#include <span>
#include <utility>

#include "base/text/number.h"
#include "model/gguf/architectures.h"

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

std::string_view find(std::span<const Pair> pairs, const Names& names, std::string_view part) {
  for (const Pair& pair : pairs)
    if (!part.empty() && part == names.*pair.part) return pair.theirs;
  return {};
}

std::string_view find_theirs(std::span<const Pair> pairs, const Names& names, std::string_view theirs) {
  for (const Pair& pair : pairs)
    if (theirs == pair.theirs && !(names.*pair.part).empty()) return names.*pair.part;
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
      find(expert < 0 ? std::span<const Pair>(kInner) : kExpert, family.names, part);
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

GgufOrder::GgufOrder(const ModelConfig& config)
    : family_(*config.family),
      heads_(config.num_attention_heads),
      head_dim_(config.head_dim),
      norms_of_q_(config.qk_norm) {
  const GgufFamily* row = find_gguf_family(config.model_type);
  if (row == nullptr) return;
  pairs_ = row->paired_rows;
  if (!row->multipliers) factor_ = static_cast<float>(gguf_attention_ratio(config, *row));
}

bool GgufOrder::moves_rows(std::string_view name) const {
  const auto has = [&](std::string_view part) {
    return !part.empty() && name.find(part) != std::string_view::npos;
  };
  const Names& names = family_.names;
  return (pairs_ && (has(names.q) || has(names.k))) || (family_.qkv_by_head && has(names.qkv));
}

int64_t GgufOrder::in_gguf(int64_t row) const {
  const int64_t in_head = row % head_dim_, before = row - in_head;
  if (pairs_) return before + in_head % (head_dim_ / 2) * 2 + in_head / (head_dim_ / 2);
  const int64_t block = row / head_dim_;  // index 3 head + part
  return (block % 3 * heads_ + block / 3) * head_dim_ + in_head;
}

int64_t GgufOrder::here(int64_t row) const {
  const int64_t in_head = row % head_dim_, before = row - in_head;
  if (pairs_) return before + in_head % 2 * (head_dim_ / 2) + in_head / 2;
  const int64_t block = row / head_dim_;  // index heads part + head
  return (block % heads_ * 3 + block / heads_) * head_dim_ + in_head;
}

bool GgufOrder::transposes(std::string_view name, size_t dimensions) const {
  const std::string_view layers = family_.names.layer.substr(0, family_.names.layer.find('{'));
  return family_.transposed && dimensions == 2 && name.starts_with(layers);
}

float GgufOrder::added(std::string_view name) const {
  return family_.norm == kernels::NormKind::rms_offset && name.ends_with("norm.weight") ? 1.0f : 0.0f;
}

float GgufOrder::factor(std::string_view name) const {
  const std::string_view part = norms_of_q_ ? family_.names.q_norm : family_.names.q;
  return factor_ != 1 && name.find(part) != name.npos ? factor_ : 1.0f;
}

bool GgufOrder::is_row(std::string_view name) const {
  const std::string_view row = family_.names.shared_router;
  return !row.empty() && name.find(row) != name.npos;
}

std::vector<int64_t> GgufOrder::in_gguf(std::string_view name, std::vector<int64_t> shape) const {
  if (transposes(name, shape.size())) std::swap(shape[0], shape[1]);
  if (is_row(name) && shape.size() == 2 && shape[0] == 1) shape.erase(shape.begin());
  return shape;
}

std::vector<int64_t> GgufOrder::here(std::string_view name, std::vector<int64_t> shape) const {
  if (transposes(name, shape.size())) std::swap(shape[0], shape[1]);
  if (is_row(name) && shape.size() == 1) shape.insert(shape.begin(), 1);
  return shape;
}

}  // namespace trl::model
