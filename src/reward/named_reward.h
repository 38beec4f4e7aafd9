// An entry of the option reward_funcs -> a reward.
#pragma once
#include <memory>
#include <string_view>

#include "reward/batch.h"

namespace trl::reward {

// spec: the name of a function of TRL, and its arguments by name in parentheses, if it has any, as in
// get_cosine_scaled_reward(max_len=100). Defaults are TRL's; get_soft_overlong_punishment has those of TRL's
// command, 1280 and 256. Throws Error(invalid_config, key reward_funcs) for any
// other text: it names the functions, or the arguments of the function that is named.
std::unique_ptr<Reward> named_reward(std::string_view spec);

}  // namespace trl::reward
