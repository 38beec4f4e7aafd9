#include "run/rollout/rewards/awaited_reward.h"

#include "base/error.h"
#include "reward/command_entry.h"
#include "reward/named_reward.h"

namespace trl::run {

void AwaitedReward::refuse() const {
  fail_key("reward_funcs",
           "reward_funcs: '{}': the trl command runs programs, this library does not: a host adds the "
           "reward {} itself (trl_trainer_add_reward)",
           spec_, name_);
}

std::unique_ptr<reward::Reward> reward_of(const std::string& spec) {
  const auto command = reward::command_entry(spec);
  if (!command) return reward::named_reward(spec);
  if (command->line.empty())
    fail_key("reward_funcs", "reward_funcs: '{}': the command is missing: give it, as in command:./score.sh",
             spec);
  return std::make_unique<AwaitedReward>(command->name, spec);
}

const AwaitedReward* awaited(const reward::Reward& function) {
  return dynamic_cast<const AwaitedReward*>(&function);
}

}  // namespace trl::run
