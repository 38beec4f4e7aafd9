#include "run/rollout/rewards/reward_options.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "base/error.h"
#include "reward/command_entry.h"
#include "reward/named_reward.h"
#include "run/rollout/replay.h"
#include "run/rollout/rewards/answers.h"
#include "run/rollout/rewards/awaited_reward.h"
#include "run/rollout/rewards/reward_model.h"

namespace trl::run {

void refuse_second_reward(std::string_view name) {
  fail_key("reward_funcs", "reward_funcs: two rewards are called {}: their metrics need different names",
           name);
}

void check_reward_options(const config::OnlineArguments& arguments) {
  std::vector<std::string> names;
  if (!arguments.reward_model.empty()) {
    check_reward_model(arguments.reward_model);
    names.push_back(reward_model_name(arguments.reward_model));
  }
  for (const std::string& spec : arguments.reward_funcs) {
    std::string name(reward_of(spec)->name());
    if (std::ranges::find(names, name) != names.end()) refuse_second_reward(name);
    names.push_back(std::move(name));
  }
  if (!arguments.replay_rollouts.empty()) check_replay(arguments.replay_rollouts);
}

void check_reward_columns(const config::OnlineArguments& arguments, std::span<const std::string> replayed,
                          const data::PromptExample& prompt) {
  const base::Json columns = reward_columns(base::Json::parse(prompt.row));
  const reward::Completion empty = {.row = prompt.source_row, .columns = &columns};
  if (arguments.on_reward_error == config::OnRewardError::none) return;
  for (const std::string& spec : arguments.reward_funcs) {
    if (reward::command_entry(spec)) continue;
    const std::unique_ptr<reward::Reward> function = reward::named_reward(spec);
    if (std::ranges::find(replayed, function->name()) == replayed.end()) function->score({{&empty, 1}});
  }
}

}  // namespace trl::run
