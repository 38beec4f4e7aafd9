#include "reward/built_in.h"
#include "reward/content.h"

namespace trl::reward {

namespace {

class ThinkFormat final : public Reward {
 public:
  std::string_view name() const override { return "think_format_reward"; }
  Rewards score(const RewardBatch& batch) override {
    constexpr std::string_view kOpen = "<think>", kClose = "</think>";
    Rewards out;
    for (const Completion& completion : batch.completions) {
      const std::string_view text = content_of(completion);
      const bool opens_once =
          text.starts_with(kOpen) && text.find(kOpen, kOpen.size()) == std::string_view::npos;
      out.push_back(opens_once && text.find(kClose) != std::string_view::npos ? 1 : 0);
    }
    return out;
  }
};

}  // namespace

std::unique_ptr<Reward> think_format_reward() { return std::make_unique<ThinkFormat>(); }

}  // namespace trl::reward
