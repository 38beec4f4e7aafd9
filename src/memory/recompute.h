// A piece of the graph that is not kept but computed again in backward, with the same bits as if it were
// kept.
#pragma once
#include <ATen/ATen.h>

#include <functional>
#include <vector>

#include "config/recompute.h"

namespace trl::memory {

// Whether a piece is being computed for the second time on this thread, for its graph, so that values that
// are only added to others will not be read.
bool computes_again();

using Piece = std::function<std::vector<at::Tensor>(const at::Tensor&)>;

// body(x), which is run without a graph now, and once more, with one, in backward; what the form keeps is not
// computed the second time. Form nothing: body(x) itself. begins: the body trains something, and a graph
// begins in it where x has none.
std::vector<at::Tensor> recompute(const at::Tensor& x, config::Recomputed form, const Piece& body,
                                  bool begins = false);

}  // namespace trl::memory
