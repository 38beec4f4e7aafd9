// The losses of next tokens as a loss of the head, with the sums that tests look at.
#pragma once
#include <cmath>

#include "kernels/head/head.h"

namespace trl::test {

struct NllOptions {
  double smoothing = 0;  // (1 - smoothing) nll + smoothing * the mean of -log p
  bool dft = false;      // nll times p as a constant
  bool starts_backward = true;
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
  using Kind = kernels::TokenFormula::Kind;
  const kernels::TokenFormula formula{.kind = kind.dft             ? Kind::dft
                                              : kind.smoothing > 0 ? Kind::smoothed
                                                                   : Kind::nll,
                                      .scale = scale,
                                      .coefficients = {kind.smoothing}};
  const kernels::HeadTargets list = kernels::head_targets(targets);
  std::vector<kernels::TokenValues> values;
  kernels::HeadOptions own = options;
  own.starts_backward = kind.starts_backward;
  const at::Tensor loss = kernels::head_loss(hidden, head, list, formula, own, &values);
  if (sums == nullptr) return loss;
  *sums = {};
  sums->log_probs.assign(static_cast<size_t>(hidden.size(0)), 0);
  for (size_t i = 0; i < values.size(); ++i) {
    const double weight = kind.dft ? std::exp(values[i].log_prob) : 1 - kind.smoothing;
    sums->loss -= weight * values[i].log_prob + kind.smoothing * values[i].mean_log_prob;
    sums->nll -= values[i].log_prob;
    sums->entropy += values[i].entropy;
    sums->correct += values[i].best;
    ++sums->count;
    sums->log_probs[static_cast<size_t>(list.rows[i])] = static_cast<float>(values[i].log_prob);
  }
  return loss;
}

}  // namespace trl::test
