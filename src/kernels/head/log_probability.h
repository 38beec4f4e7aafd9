// Log-probabilities of targets in training with the bits of generation.
#pragma once
#include <vector>

#include "kernels/head/head.h"

namespace trl::kernels {

// The log-probability of each target as in LogitSoftmax (logit_row.h), from the logits of products whose
// rows are independent (gemm/gemm.h): the bits that a generator states for the same hidden states.
// temperature: the options'.
std::vector<float> log_probabilities(const at::Tensor& hidden, Parameter& head, const HeadTargets& targets,
                                     const HeadOptions& options);

}  // namespace trl::kernels
