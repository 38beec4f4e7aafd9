#include "loss/sft.h"

#include "tensor/counted.h"

namespace trl::loss {

namespace {
constexpr int32_t kIgnored = -100;
}

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

SftLoss sft_loss(const at::Tensor& hidden, kernels::Parameter& head, const at::Tensor& targets,
                 double num_items, const kernels::HeadOptions& options) {
  SftLoss result;
  // A window without a target has the loss 0, not 0 / 0 (SFTTrainer.compute_loss clamps in the same way).
  result.loss =
      kernels::head_loss(hidden, head, targets, 1.0 / std::max(num_items, 1.0), options, &result.sums);
  return result;
}

}  // namespace trl::loss
