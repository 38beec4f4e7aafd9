// What a memory plan sets of a forward and its backward.
#pragma once
#include <cstdint>

namespace trl::model {

// How much of a layer exists at once. Results are the same for all sizes.
struct TileSizes {
  // Tokens that go through the feed-forward part together, rounded down to kernels::kSumPiece, at least that:
  // what is as wide as it is exists only for this many, and is computed again in backward. 0: as many as take
  // 256 MiB, where the layer is not kept for backward; else all.
  int64_t mlp_tokens = 0;
};

}  // namespace trl::model
