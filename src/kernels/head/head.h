// The language-modelling head: log-probabilities of tokens, and the gradient of any loss of them, by tiles of
// rows. The full [rows, vocab] never exists.
#pragma once
#include <memory>

#include "kernels/head/token_formula.h"
#include "kernels/kernels.h"
#include "kernels/op.h"

namespace trl::kernels {

struct HeadOptions {
  at::ScalarType compute = at::kFloat;
  // Rows of logits that exist at once; 0: as many as keep work memory within 64 MiB. If several tiles add to
  // a bfloat16 gradient of the head, it takes one more byte for each element in the meantime.
  int64_t tile_rows = 0;
  double scale = 1;        // factor of the logits, applied first (Granite: 1 / logits_scaling)
  double softcap = 0;      // logits become softcap tanh(logit / softcap) (Gemma 2); 0: they stay
  double temperature = 1;  // divides the logits of a distribution, last; head_logits() leaves it out
  // log_prob has the bits of generation (log_probability.h), for one more product with the head; all else,
  // gradients included, is of the sweep's own logits. Fused only.
  bool as_generated = false;
  // Rows that replace rows of the head, which then have no gradient; or null. Not owned.
  const OwnRows* own_rows = nullptr;
  // A copy of the head, which logits are computed with instead of the head; or null. Not owned.
  const NarrowWeight* narrow = nullptr;
  // Says that backward will start from the loss itself, or from a sum with it: head_loss() then makes the
  // gradients in the sweep that computes the loss, which saves computing all logits again, and an incoming
  // gradient other than 1 is an Error.
  bool starts_backward = false;
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
// The values of each target, without a gradient. hidden: [rows, width].
std::vector<TokenValues> head_values(const at::Tensor& hidden, Parameter& head, const HeadTargets& targets,
                                     const HeadOptions& options);

// The sum of the formula's terms as a float32 scalar; values: if not null, gets those of each target.
// Backward takes any incoming gradient, unless the options say starts_backward. A loss that needs the values
// of all targets before the weight of any calls head_values() first, and then weighs them.
at::Tensor head_loss(const at::Tensor& hidden, Parameter& head, const HeadTargets& targets,
                     const TokenFormula& formula, const HeadOptions& options,
                     std::vector<TokenValues>* values = nullptr);

// The gradients that a sweep adds to. d_hidden: [rows, width], zero; d_head, d_own: as the head and its own
// rows. Undefined: that gradient is not wanted.
struct HeadGradients {
  at::Tensor d_hidden = {};
  tensor::Split d_head = {};
  at::Tensor d_own = {};
  bool any() const { return d_hidden.defined() || d_head.high.defined(); }
};

// Logits without gradient, by compute, scale and softcap of the options: [rows, vocab] float32, for
// generation and tests.
at::Tensor head_logits(const at::Tensor& hidden, Parameter& head, const HeadOptions& options);

// The options' own rows, or null if they have none.
inline const OwnRows* own_rows(const HeadOptions& options) {
  return options.own_rows != nullptr && options.own_rows->rows != nullptr ? options.own_rows : nullptr;
}

// The head's values for a kernel that converts them piece by piece: in this type if copies are kept, but a
// float32 copy of bfloat16 values is not made.
inline tensor::Reading read_head(Parameter& head, at::ScalarType type) {
  return type == at::kFloat ? head.read() : head.read_either(type, &convert);
}

// The head's values with these rows, of tokens that are trained separately, replacing its own. Refers to
// both, which must not be written during its lifetime. type: the type that it will be decoded to.
std::unique_ptr<const tensor::Encoded> with_own_rows(Parameter& head, const OwnRows& own,
                                                     at::ScalarType type);

}  // namespace trl::kernels
