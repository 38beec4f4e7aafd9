// The clipped objective of PPO (Schulman et al. 2017), which GRPO and RLOO have too, and how often it clips.
#pragma once
#include <optional>
#include <span>

#include "loss/dual.h"
#include "loss/metrics.h"

namespace trl::loss {

struct Clip {
  double low = 0.2, high = 0.2;  // a ratio counts from 1 - low to 1 + high
};

// -min(r A, clip(r) A), A being the advantage. cap: the first r is at most that (two-sided clipping, Prime
// Intellect Team 2025).
inline Dual clipped(const Dual& ratio, double advantage, const Clip& clip, std::optional<double> cap = {}) {
  const Dual free = cap ? at_most(ratio, *cap) : ratio;
  const Dual bounded = at_most(at_least(ratio, 1 - clip.low), 1 + clip.high);
  return greater(free * -advantage, bounded * -advantage);
}

// The ratios of a row that clipping keeps from a further change.
struct Clippings {
  double low = 0, high = 0;
  double of = 0;  // all ratios of the row
  void add(double ratio, double advantage, const Clip& clip) {
    if (advantage < 0 && ratio < 1 - clip.low) ++low;
    if (advantage > 0 && ratio > 1 + clip.high) ++high;
    ++of;
  }
};
// Adds clip_ratio/*: the shares of all ratios, the least `low` and the greatest `high` share of a row. Rows
// without ratios do not count; if there are no others, the shares are 0, and the extremes NaN.
void add_clip_ratios(std::span<const Clippings> rows, Metrics& metrics);

}  // namespace trl::loss
