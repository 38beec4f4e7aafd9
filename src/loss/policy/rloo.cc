#include "loss/policy/rloo.h"

namespace trl::loss {

RlooResult rloo_loss(std::span<const RlooRow> rows, const Clip& clip) {
  RlooResult out;
  std::vector<Clippings> clippings(rows.size());
  for (size_t r = 0; r < rows.size(); ++r) {
    const Dual ratio = exp(Dual::variable(rows[r].logp - rows[r].old_logp, 0));
    const Dual loss = clipped(ratio, rows[r].advantage, clip) / static_cast<double>(rows.size());
    out.loss += loss.value;
    out.terms.push_back(loss.value);
    out.by_logp.push_back(loss.by[0]);
    clippings[r].add(ratio.value, rows[r].advantage, clip);
  }
  add_clip_ratios(clippings, out.metrics);
  return out;
}

}  // namespace trl::loss
