// Pieces of the graph that are not kept but computed again in backward, with the same bits as if they were
// kept.
#pragma once
#include <ATen/ATen.h>
#include <functional>
#include <vector>

#include "config/recompute.h"
#include "kernels/kernels.h"

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

// A part of the graph that treats each row of its input independently, a tile of rows at a time: its
// intermediate values exist for one tile at a time, in forward and in backward, which computes each tile
// again. Bit-equal to all rows at once if the body's own products are (with a multiple of kernels::kSumPiece
// rows). x: [rows, in] -> [rows, width]. first: the number of x's first row in the batch.
using RowBody = std::function<at::Tensor(const at::Tensor& x, int64_t first, kernels::Wanted wanted)>;

struct RowTiles {
  int64_t rows = 0;                                  // rows in a tile; the last one also takes the remainder
  int64_t width = 0;                                 // the result's width
  at::ScalarType type = at::kFloat;                  // the result's type
  kernels::Wanted wanted = kernels::Wanted::values;  // graph: the result is zeros
  kernels::Again again = {};                         // how x is made again; empty: x is kept
  std::vector<const kernels::Parameter*> parameters = {};  // parameters that the body reads and may train
};

// The body is kept for backward, so it must own everything it needs.
at::Tensor by_row_tiles(const at::Tensor& x, const RowTiles& tiles, const RowBody& body);

}  // namespace trl::memory
