#include "loss/sft.h"

#include "loss/rows.h"
#include "tensor/counted.h"

namespace trl::loss {

namespace {

constexpr int32_t kIgnored = -100;

// Indices of the rows that have a target: int64 [count].
at::Tensor rows_with_target(const at::Tensor& targets, int64_t count) {
  at::Tensor rows = tensor::empty({count}, at::kLong, tensor::MemoryKind::activations);
  const int32_t* target = targets.data_ptr<int32_t>();
  int64_t* row = rows.data_ptr<int64_t>();
  for (int64_t i = 0; i < targets.numel(); ++i) {
    if (target[i] != kIgnored) *row++ = i;
  }
  return rows;
}

at::Tensor targets_of(const at::Tensor& targets, const at::Tensor& rows) {
  at::Tensor kept = tensor::empty({rows.numel()}, at::kInt, tensor::MemoryKind::activations);
  for (int64_t i = 0; i < rows.numel(); ++i) {
    kept.data_ptr<int32_t>()[i] = targets.data_ptr<int32_t>()[rows.data_ptr<int64_t>()[i]];
  }
  return kept;
}

}  // namespace

at::Tensor shift_labels(const at::Tensor& labels, const kernels::Segments& segments) {
  at::Tensor targets = tensor::empty({labels.numel()}, at::kInt, tensor::MemoryKind::data);
  const int32_t* label = labels.data_ptr<int32_t>();
  int32_t* target = targets.data_ptr<int32_t>();
  for (size_t d = 0; d + 1 < segments.cu_seqlens.size(); ++d) {
    const int64_t begin = segments.cu_seqlens[d];
    const int64_t end = segments.cu_seqlens[d + 1];
    for (int64_t i = begin; i + 1 < end; ++i) target[i] = label[i + 1];
    if (begin < end) target[end - 1] = kIgnored;
  }
  return targets;
}

int64_t count_targets(const at::Tensor& targets) {
  const int32_t* target = targets.data_ptr<int32_t>();
  return targets.numel() - std::count(target, target + targets.numel(), kIgnored);
}

SftLoss sft_nll(const at::Tensor& hidden, kernels::Parameter& head, const at::Tensor& targets,
                double num_items, const kernels::HeadOptions& options) {
  SftLoss result;
  const int64_t count = count_targets(targets);
  if (count == 0) {  // nothing to learn from: zero, and no graph
    result.loss = at::zeros({}, at::kFloat);
    return result;
  }
  const double scale = 1.0 / std::max(num_items, 1.0);
  if (count == targets.numel()) {
    result.loss = kernels::head_loss(hidden, head, targets, scale, options, &result.sums);
    return result;
  }
  const at::Tensor rows = rows_with_target(targets, count);
  result.loss = kernels::head_loss(select_rows(hidden, rows), head, targets_of(targets, rows), scale, options,
                                   &result.sums);
  return result;
}

}  // namespace trl::loss
