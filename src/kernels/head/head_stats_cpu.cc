// Joins the sums over parts of a row of logits.
#include <cmath>

#include "kernels/cpu/cpu_kernels.h"

namespace trl::kernels {

void join(HeadStats& stats, const HeadStats& later) {
  if (!(later.top > stats.top) && later.sum == 0) {  // all are -inf
    stats.total += later.total;
    return;
  }
  const auto moved = [](const HeadStats& s, double shift, HeadStats& to) {
    const double factor = std::exp(-shift);
    to.sum += s.sum * factor;
    to.weighted += (s.weighted - shift * s.sum) * factor;
    to.squares += s.squares * factor * factor;
  };
  HeadStats both;
  both.top = later.top > stats.top ? later.top : stats.top;
  both.best = later.top > stats.top ? later.best : stats.best;
  both.total = stats.total + later.total;
  if (stats.sum != 0) moved(stats, static_cast<double>(both.top) - static_cast<double>(stats.top), both);
  if (later.sum != 0) moved(later, static_cast<double>(both.top) - static_cast<double>(later.top), both);
  stats = both;
}

}  // namespace trl::kernels
