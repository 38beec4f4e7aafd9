// The SFT loss of one micro-batch: hidden states and targets -> a scalar and the values to log. Pure.
#pragma once
#include <ATen/ATen.h>

#include "kernels/head/head.h"

namespace trl::loss {

// The cost of a token: -log p of the target; with smoothing (1 - smoothing) times that plus smoothing times
// the mean of -log p over the vocabulary (transformers' LabelSmoother); or with dft -log p times p as a
// constant (Wu et al. 2025).
struct TokenCost {
  double smoothing = 0;
  bool dft = false;
};

struct SftLoss {
  at::Tensor loss;  // float32 scalar: the sum of costs / num_items
  // Sums over the targets.
  double nll = 0;
  double entropy = 0;
  int64_t correct = 0;  // targets whose token is the first maximum
  int64_t count = 0;
};
// num_items: the number of targets in the whole accumulation window.
SftLoss sft_loss(const at::Tensor& hidden, kernels::Parameter& head, const kernels::HeadTargets& targets,
                 double num_items, const TokenCost& cost, const kernels::HeadOptions& options);

}  // namespace trl::loss
