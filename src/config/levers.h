// The settings of a run that a memory plan adds to its options. The results are the same, bit for bit.
#pragma once

namespace trl::config {

struct Levers {
  // The feed-forward part of a layer runs on as few tokens at once as its bits allow.
  bool small_tiles = false;
  // false: float32 weights that are used in bfloat16 are converted at each use.
  bool weight_copies = true;
};

}  // namespace trl::config
