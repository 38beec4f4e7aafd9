// Mixtures of experts: the choice of experts for each token, the experts' products, and the loss that keeps
// them evenly busy. Costs grow with the number of chosen experts, not with the number of experts.
#pragma once
#include "kernels/kernels.h"

namespace trl::kernels {

// Each token's experts and their shares.
struct Routing {
  at::Tensor weights;  // float32 [tokens, k], in the graph
  at::Tensor
      experts;  // int32 [tokens, k] on the host, by descending probability; ties: the lower number first
};
// Softmax over the experts in float32, and the k most probable ones with their probabilities; normalised:
// divided by their sum (transformers' norm_topk_prob). logits: [tokens, experts], the router's product with
// x, which may be one of several projections of x.
Routing route(const at::Tensor& logits, int64_t k, bool normalised);

// Weights as transformers 5 holds them in memory, [gate | up] in one; on disk each expert's matrices have
// their own names.
struct ExpertWeights {
  Parameter* gate_up;  // [experts, 2 * width, hidden]
  Parameter* down;     // [experts, hidden, width]
  // An adapter's terms: a [experts * rank, in], b [out, experts * rank] as in PEFT (expert_terms.h), without
  // bias, magnitude or dropout.
  LowRank gate_up_terms = {}, down_terms = {};
  // Copies that generation reads in place of the weights; null: none.
  const NarrowWeight *gate_up_copy = nullptr, *down_copy = nullptr;
};
// y = sum over the k experts of each token, in their order, of share * down(act(gate x) * up x). x: [tokens,
// hidden] -> [tokens, hidden] of type `compute`, sums in float32. Weights, gradients and work memory of an
// expert without tokens are not touched. again, wanted: as for linear().
at::Tensor experts(const at::Tensor& x, const Routing& routing, const ExpertWeights& weights, Activation kind,
                   at::ScalarType compute, const Again& again = {}, Wanted wanted = Wanted::values);

// y + sigmoid(gate) * branch: adds the output of a shared expert to the output of the others. y, branch:
// [tokens, hidden]; gate: [tokens, 1].
at::Tensor add_gated(const at::Tensor& y, const at::Tensor& gate, const at::Tensor& branch);

// experts * sum over experts of (assignments / rows) * (sum of probabilities / rows), rows counted over all
// layers: a float32 scalar, k when all are equally busy (Fedus et al. 2021, eq. 4-6; transformers'
// load_balancing_loss_func). logits: [tokens, experts] of each layer; the gradient flows to all of them.
// rows: the number of rows that each token counts as; empty: one each.
at::Tensor balance_loss(at::ArrayRef<at::Tensor> logits, int64_t k, at::IntArrayRef rows = {});

}  // namespace trl::kernels
