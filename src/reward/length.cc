#include <algorithm>
#include <cmath>
#include <numbers>

#include "reward/built_in.h"

namespace trl::reward {

namespace {

class SoftOverlong final : public Reward {
 public:
  SoftOverlong(int64_t longest, int64_t cache) : longest_(longest), cache_(cache) {}
  std::string_view name() const override { return "soft_overlong_punishment_reward"; }
  Rewards score(const RewardBatch& batch) override {
    Rewards out;
    for (const Completion& completion : batch.completions) out.push_back(of(std::ssize(completion.ids)));
    return out;
  }

 private:
  double of(int64_t length) const {
    const int64_t free = longest_ - cache_;
    if (length <= free) return 0;
    if (length > longest_) return -1;
    return static_cast<double>(free - length) / static_cast<double>(cache_);
  }
  int64_t longest_, cache_;
};

class CosineScaled final : public Reward {
 public:
  explicit CosineScaled(const CosineScale& scale) : scale_(scale), accuracy_(accuracy_reward()) {}
  std::string_view name() const override { return "cosine_scaled_reward"; }
  Rewards score(const RewardBatch& batch) override {
    Rewards out = accuracy_->score(batch);
    for (size_t i = 0; i < out.size(); ++i)
      if (!std::isnan(out[i])) out[i] = of(out[i] != 0, batch.completions[i].ids.size());
    return out;
  }
  Unread unread() const override { return accuracy_->unread(); }

 private:
  double of(bool correct, size_t length) const {
    const double low = correct ? scale_.min_value_correct : scale_.max_value_wrong;
    const double high = correct ? scale_.max_value_correct : scale_.min_value_wrong;
    const double progress = std::min(static_cast<double>(length) / static_cast<double>(scale_.max_len), 1.0);
    return low + 0.5 * (high - low) * (1 + std::cos(progress * std::numbers::pi));
  }
  CosineScale scale_;
  std::unique_ptr<Reward> accuracy_;
};

}  // namespace

std::unique_ptr<Reward> soft_overlong_punishment(int64_t max_completion_len, int64_t soft_punish_cache) {
  return std::make_unique<SoftOverlong>(max_completion_len, soft_punish_cache);
}

std::unique_ptr<Reward> cosine_scaled_reward(const CosineScale& scale) {
  return std::make_unique<CosineScaled>(scale);
}

}  // namespace trl::reward
