#include "run/rollout/pass_at_k.h"

#include <algorithm>

#include "base/error.h"

namespace trl::run {

double pass_at_k(int64_t n, int64_t c, int64_t k) {
  double none = 1;  // the probability that none is right
  for (int64_t i = 0; i < k; ++i)
    none *= static_cast<double>(std::max<int64_t>(n - c - i, 0)) / static_cast<double>(n - i);
  return 1 - none;
}

size_t PassAtK::counted(const std::vector<std::string>& names) const {
  const auto found = reward_.empty() ? names.begin() : std::ranges::find(names, reward_);
  return static_cast<size_t>(found - names.begin());
}

void PassAtK::check(const std::vector<std::string>& names) const {
  if (!asked()) return;
  if (reward_.empty() && names.size() > 1)
    fail_key(
        "eval_pass_reward",
        "eval_pass_reward: it says which reward eval_pass_at_k counts; there are several: give one of {}",
        fmt::join(names, ", "));
  if (counted(names) == names.size())
    fail_key("eval_pass_reward", "eval_pass_reward: '{}' is not a reward of this run: give one of {}",
             reward_, fmt::join(names, ", "));
}

void PassAtK::add(engine::Rewards& rewards, int64_t batches, int64_t completions) const {
  if (!asked()) return;
  const int64_t prompts = completions / group_;
  const size_t functions = rewards.names.size(), column = counted(rewards.names);
  const auto rows = static_cast<int64_t>(rewards.values.size() / functions);
  for (const int64_t k : numbers_) {
    double sum = 0;
    for (int64_t first = 0; first < rows; first += group_) {
      int64_t right = 0;
      for (int64_t row = first; row < first + group_; ++row)
        right += rewards.values[static_cast<size_t>(row) * functions + column] >= 1 ? 1 : 0;
      sum += pass_at_k(group_, right, k);
    }
    rewards.metrics.emplace_back(fmt::format("pass_at_k/{}", k),
                                 sum * static_cast<double>(batches) / static_cast<double>(prompts));
  }
}

}  // namespace trl::run
