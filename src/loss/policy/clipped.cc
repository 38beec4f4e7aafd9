#include "loss/policy/clipped.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace trl::loss {

void add_clip_ratios(std::span<const Clippings> rows, Metrics& metrics) {
  Clippings all;
  double least_low = std::numeric_limits<double>::quiet_NaN(), greatest_high = least_low;
  for (const Clippings& row : rows) {
    all.low += row.low;
    all.high += row.high;
    all.of += row.of;
    least_low = std::fmin(least_low, row.low / row.of);  // fmin and fmax pass over NaN
    greatest_high = std::fmax(greatest_high, row.high / row.of);
  }
  const double count = std::max(all.of, 1.0);
  metrics.emplace_back("clip_ratio/low_mean", all.low / count);
  metrics.emplace_back("clip_ratio/high_mean", all.high / count);
  metrics.emplace_back("clip_ratio/region_mean", (all.low + all.high) / count);
  metrics.emplace_back("clip_ratio/low_min", least_low);
  metrics.emplace_back("clip_ratio/high_max", greatest_high);
}

}  // namespace trl::loss
