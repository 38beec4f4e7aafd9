// The losses of next tokens as a loss of the head, with the sums that tests look at.
#pragma once
#include <cmath>

#include "kernels/head/head.h"

namespace trl::test {

struct NllOptions {
  double smoothing = 0;  // (1 - smoothing) nll + smoothing * the mean of -log p
  bool dft = false;      // nll times p as a constant
};

struct NllSums {
  double loss = 0, nll = 0, entropy = 0;
  int64_t correct = 0, count = 0;
  std::vector<float> log_probs;  // [rows], 0 without a target
};

// targets: int32 [rows], -100 ignored.
inline at::Tensor nll_loss(const at::Tensor& hidden, tensor::Parameter& head, const at::Tensor& targets,
                           double scale, const kernels::HeadOptions& options = {}, NllSums* sums = nullptr,
                           const NllOptions& kind = {}) {
  const auto term = [=](int64_t, const kernels::TokenValues& v) {
    const double weight = kind.dft ? std::exp(v.log_prob) : 1 - kind.smoothing;
    return kernels::TokenTerm{-scale * (weight * v.log_prob + kind.smoothing * v.mean_log_prob),
                              -scale * weight, -scale * kind.smoothing};
  };
  const kernels::HeadTargets list = kernels::head_targets(targets);
  std::vector<kernels::TokenValues> values;
  const at::Tensor loss = kernels::head_loss(hidden, head, list, term, options, &values);
  if (sums == nullptr) return loss;
  *sums = {};
  sums->log_probs.assign(static_cast<size_t>(hidden.size(0)), 0);
  for (size_t i = 0; i < values.size(); ++i) {
    sums->loss += term(0, values[i]).loss / scale;
    sums->nll -= values[i].log_prob;
    sums->entropy += values[i].entropy;
    sums->correct += values[i].best;
    ++sums->count;
    sums->log_probs[static_cast<size_t>(list.rows[i])] = static_cast<float>(values[i].log_prob);
  }
  return loss;
}

}  // namespace trl::test
