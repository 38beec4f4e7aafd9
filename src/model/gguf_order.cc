#include "model/gguf_order.h"

#include <utility>

#include "model/gguf_families.h"
#include "model/gguf_limits.h"

namespace trl::model {

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
