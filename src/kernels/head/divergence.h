// The divergence of two models' distributions over the vocabulary, which distillation minimises: by tiles of
// rows, so that neither model's [rows, vocab] ever exists.
#pragma once
#include <vector>

#include "kernels/head/head.h"

namespace trl::kernels {

// A model's hidden states, [tokens, its own width], the rows of these that are compared, ascending, and its
// head.
struct HeadInput {
  const at::Tensor& hidden;
  const std::vector<int64_t>& rows;
  Parameter& head;
  const HeadOptions& options;
};

// The generalised Jensen-Shannon divergence of Agarwal et al. 2024 (On-Policy Distillation of Language
// Models, equation 1), p being the student's distribution and q the teacher's: beta 0: KL(q || p); beta 1:
// KL(p || q); else beta KL(q || m) + (1 - beta) KL(p || m) with m = beta q + (1 - beta) p.
struct Divergence {
  double beta = 0.5;
  double scale = 1;  // factor of the sum
};

struct DivergenceValues {
  double entropy = 0;  // of the student: the sum over the rows, as often as they count
};

// Returns the sum over the pairs of rows, each as often as it counts, times scale: a float32 scalar, with a
// graph as head_loss's. The teacher gets no gradient. Both vocabularies must have one size, and the options
// one compute type. values: nullable.
at::Tensor head_divergence(const HeadInput& student, const HeadInput& teacher,
                           const std::vector<double>& counts, const Divergence& divergence,
                           DivergenceValues* values = nullptr);

}  // namespace trl::kernels
