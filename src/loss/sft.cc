#include "loss/sft.h"

#include <cmath>

namespace trl::loss {

SftLoss sft_loss(const at::Tensor& hidden, kernels::Parameter& head, const kernels::HeadTargets& targets,
                 double num_items, const TokenCost& cost, const kernels::HeadOptions& options) {
  // A window without a target has loss 0, not 0 / 0 (SFTTrainer.compute_loss clamps in the same way).
  const double share = 1.0 / std::max(num_items, 1.0);
  const auto term_of = [cost, share](int64_t, const kernels::TokenValues& v) {
    const double weight = share * (cost.dft ? std::exp(v.log_prob) : 1 - cost.smoothing);
    kernels::TokenTerm term{-weight * v.log_prob, -weight};
    if (cost.smoothing == 0) return term;
    term.by_mean_log_prob = -share * cost.smoothing;
    term.loss += term.by_mean_log_prob * v.mean_log_prob;
    return term;
  };
  SftLoss result;
  std::vector<kernels::TokenValues> values;
  result.loss = kernels::head_loss(hidden, head, targets, term_of, options, &values);
  result.count = std::ssize(values);
  for (const kernels::TokenValues& v : values) {
    result.nll -= v.log_prob;
    result.entropy += v.entropy;
    result.correct += v.best;
  }
  return result;
}

}  // namespace trl::loss
