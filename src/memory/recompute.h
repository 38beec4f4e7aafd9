// A piece of the graph that is not kept but computed again in backward, with the same bits as if it were
// kept.
#pragma once
#include <ATen/ATen.h>

#include <functional>
#include <vector>

#include "config/recompute.h"

namespace trl::memory {

// Whether this thread is computing a piece for the second time, for its graph, so that values that are only
// added to others will not be read.
bool computes_again();

using Piece = std::function<std::vector<at::Tensor>(const at::Tensor&)>;

// Runs body(x) without a graph now, and again, with one, in backward; tensors that the form keeps are not
// computed the second time. Form nothing: body(x) itself. begins: the body trains something, and a graph
// begins in it if x has none.
std::vector<at::Tensor> recompute(const at::Tensor& x, config::Recomputed form, const Piece& body,
                                  bool begins = false);

}  // namespace trl::memory
