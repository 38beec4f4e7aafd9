// Gradient checkpointing: a piece of the graph is not kept but computed again in backward, bit-equal to
// keeping it.
#pragma once
#include <ATen/ATen.h>

#include <functional>
#include <vector>

namespace trl::memory {

// body(x) -> y, one tensor in, one out; it is run without a graph now, and once more, with one, in backward.
// enabled false: body(x) itself.
at::Tensor checkpoint(const at::Tensor& x, bool enabled,
                      const std::function<at::Tensor(const at::Tensor&)>& body);

// The same with several outputs. begins: the body trains something, and a graph begins in it where x has
// none.
std::vector<at::Tensor> checkpoint_all(const at::Tensor& x, bool enabled,
                                       const std::function<std::vector<at::Tensor>(const at::Tensor&)>& body,
                                       bool begins = false);

}  // namespace trl::memory
