#include "loss/kto.h"

#include <algorithm>
#include <numeric>

#include "loss/dual.h"

namespace trl::loss {

double kto_baseline(std::span<const double> ratios) {
  if (ratios.empty()) return 0;
  const double sum = std::accumulate(ratios.begin(), ratios.end(), 0.0);
  return std::max(sum / static_cast<double>(ratios.size()), 0.0);
}

KtoResult kto_loss(std::span<const KtoRow> rows, double baseline, const KtoOptions& o) {
  KtoResult out;
  if (o.loss == KtoLoss::apo_zero_unpaired) baseline = 0;
  for (const KtoRow& row : rows) {
    const double sign = row.desirable ? 1 : -1;
    const double weight =
        (row.desirable ? o.desirable_weight : o.undesirable_weight) / static_cast<double>(rows.size());
    // 1 - sigmoid(x) = sigmoid(-x)
    const Dual x = (Dual::variable(row.ratio, 0) - Dual(baseline)) * (sign * o.beta);
    const Dual loss = sigmoid(-x) * weight;
    out.loss += loss.value;
    out.by_ratio.push_back(loss.by[0]);
  }
  return out;
}

}  // namespace trl::loss
