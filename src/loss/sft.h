// The SFT loss of one micro-batch: hidden states and labels -> scalar and what is logged. Pure.
#pragma once
#include <ATen/ATen.h>

#include "kernels/kernels.h"

namespace trl::loss {

// Next-token targets of labels that are not shifted: target[i] = label[i + 1] inside a document, -100 at its
// end. labels: int32 [tokens] -> int32 [tokens]
at::Tensor shift_labels(const at::Tensor& labels, const kernels::Segments& segments);
int64_t count_targets(const at::Tensor& targets);

struct SftLoss {
  at::Tensor loss;  // float32 scalar: sum of token losses / num_items
  kernels::HeadSums sums;
};
// num_items: targets of the whole accumulation window. options say which loss: nll, smoothed (transformers'
// LabelSmoother), or dft.
SftLoss sft_loss(const at::Tensor& hidden, kernels::Parameter& head, const at::Tensor& targets,
                 double num_items, const kernels::HeadOptions& options);

}  // namespace trl::loss
