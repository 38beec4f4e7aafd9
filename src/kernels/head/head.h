// The language-modelling head: log-probabilities of tokens, and the gradient of any loss of them, by tiles of
// rows. The full [rows, vocab] never exists.
#pragma once
#include "kernels/kernels.h"

namespace trl::kernels {

struct HeadOptions {
  at::ScalarType compute = at::kFloat;
  // Rows of logits that exist at once; 0: as many as keep work memory within 64 MiB. If several tiles add to
  // a bfloat16 gradient of the head, it takes one more byte for each element in the meantime.
  int64_t tile_rows = 0;
  double scale = 1;    // factor of the logits, applied first (Granite: 1 / logits_scaling)
  double softcap = 0;  // logits become softcap tanh(logit / softcap) (Gemma 2); 0: they stay
  // Rows that replace rows of the head, which then have no gradient; or null. Not owned.
  const OwnRows* own_rows = nullptr;
};

// The rows of hidden states and, for each, the tokens whose log-probability is wanted. Rows ascend; a row
// that several sequences share has a token for each of them.
struct HeadTargets {
  std::vector<int32_t> rows, tokens;
  int64_t size() const { return static_cast<int64_t>(rows.size()); }
};
// The targets of next-token prediction: int32 [rows], -100 ignored.
HeadTargets head_targets(const at::Tensor& targets);

// Values of a target, and of the distribution softmax(z) at its row, z being the scaled and capped logits.
struct TokenValues {
  double log_prob = 0;
  double mean_log_prob = 0;  // over the vocabulary
  double entropy = 0;
  double mean_logit = 0;
  double log_square = 0;  // log of the sum of squared probabilities
  bool best = false;      // the target is the first maximum
};
// The term of a target in a loss, and its derivatives with respect to two of the values; the other values
// count as constants.
struct TokenTerm {
  double loss = 0;
  double by_log_prob = 0, by_mean_log_prob = 0;
};
// Must be pure: it is called a second time if the head's gradient is computed later. i: the number of the
// target.
using TokenLoss = std::function<TokenTerm(int64_t i, const TokenValues& values)>;

// The values of each target, without a gradient. hidden: [rows, width].
std::vector<TokenValues> head_values(const at::Tensor& hidden, Parameter& head, const HeadTargets& targets,
                                     const HeadOptions& options);

// The sum of the terms as a float32 scalar; values: if not null, gets those of each target. When hidden
// requires grad, the head's gradient is added and grad hidden made in this same sweep; so backward must start
// from the returned scalar itself, or from a sum with it (its incoming gradient must be 1, else an Error). A
// loss that needs the values of all targets before any term calls head_values() first.
at::Tensor head_loss(const at::Tensor& hidden, Parameter& head, const HeadTargets& targets,
                     const TokenLoss& loss, const HeadOptions& options,
                     std::vector<TokenValues>* values = nullptr);

// Logits without gradient, by compute, scale and softcap of the options: [rows, vocab] float32, for
// generation and tests.
at::Tensor head_logits(const at::Tensor& hidden, Parameter& head, const HeadOptions& options);

}  // namespace trl::kernels
