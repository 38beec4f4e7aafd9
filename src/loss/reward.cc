#include "loss/reward.h"

#include "loss/dual.h"

namespace trl::loss {

RewardResult reward_loss(std::span<const RewardPair> pairs, double center) {
  RewardResult out;
  for (const RewardPair& pair : pairs) {
    const Dual chosen = Dual::variable(pair.chosen, 0), rejected = Dual::variable(pair.rejected, 1);
    Dual loss = -log_sigmoid(chosen - rejected - Dual(pair.margin));
    if (center != 0) loss = loss + square(chosen + rejected) * center;
    loss = loss / static_cast<double>(pairs.size());
    out.loss += loss.value;
    out.by_chosen.push_back(loss.by[0]);
    out.by_rejected.push_back(loss.by[1]);
  }
  return out;
}

}  // namespace trl::loss
