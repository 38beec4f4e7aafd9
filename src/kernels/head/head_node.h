// A loss of the head as a node of the graph.
#pragma once
#include <functional>

#include "kernels/head/head.h"

namespace trl::kernels {

// One sweep for a loss: its value times `factor`, and the gradients that are wanted, added to `gradients`.
struct HeadCall {
  const at::Tensor& hidden;
  const HeadGradients& gradients;
  double factor = 1;
  bool first = false;  // the one that the forward makes
};
using HeadWork = std::function<at::Tensor(const HeadCall&)>;

// Returns the loss that `work` computes, which backward starts from if the options say starts_backward. The
// work may be done again in backward; the head outlives it.
at::Tensor head_node(const at::Tensor& hidden, Parameter& head, const HeadOptions& options,
                     const HeadWork& work);

}  // namespace trl::kernels
