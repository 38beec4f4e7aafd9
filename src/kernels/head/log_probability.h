// The log-probability of a token as generation and training both state it: one function, one order of sums.
#pragma once
#include <cstdint>
#include <span>

#include "kernels/head/head.h"

namespace trl::kernels {

// log softmax(logits / temperature)[id], rounded to float32 once: the sum of the exponentials is in double
// and in the order of ids. A logit of -inf adds nothing. temperature: above 0.
float log_probability(std::span<const float> logits, int32_t id, double temperature = 1);

// That of each target, from the logits of products whose rows are independent (gemm/gemm.h): the bits that a
// generator states for the same hidden states. temperature: the options'.
std::vector<float> log_probabilities(const at::Tensor& hidden, Parameter& head, const HeadTargets& targets,
                                     const HeadOptions& options);

}  // namespace trl::kernels
