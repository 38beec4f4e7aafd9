// The settings of a memory plan for a forward and its backward.
#pragma once
#include <cstdint>

namespace trl::model {

// How much of a layer exists at once. Results are the same for all sizes.
struct TileSizes {
  // Tokens that pass the feed-forward part together, rounded down to kernels::kSumPiece, at least that:
  // values of its width exist only for this many, and are computed again in backward. 0: as many as take 256
  // MiB if the layer is not kept for backward; else all.
  int64_t mlp_tokens = 0;
};

}  // namespace trl::model
