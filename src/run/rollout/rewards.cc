#include "run/rollout/rewards.h"

#include <cmath>

namespace trl::run {

Rewards::Rewards(const config::OnlineArguments& arguments, std::vector<std::string> replayed)
    : arguments_(arguments), replayed_(std::move(replayed)) {}

void Rewards::check() const { config::check_rewards(arguments_, std::ssize(replayed_)); }

engine::Rewards Rewards::score(const Answers& answers, std::span<const ReplayedRow> replayed) {
  engine::Rewards out;
  out.names = replayed_;
  out.weights = arguments_.reward_weights;
  out.weights.resize(out.names.size(), 1.0);
  for (size_t row = 0; row < answers.completions.size(); ++row) {
    for (const std::string& name : replayed_) {
      const auto found = replayed[row].rewards.find(name);
      out.values.push_back(found == replayed[row].rewards.end() ? std::nan("") : found->second);
    }
  }
  return out;
}

}  // namespace trl::run
