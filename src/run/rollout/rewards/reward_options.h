// Checks of the options of rewards, before a run opens anything.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "config/online/online_arguments.h"
#include "data/prepare/preference.h"

namespace trl::run {

// Refuses rewards of the options that are not there, two of one name, and a file of rollouts that is not
// there. Opens nothing. Throws Error that names the key.
void check_reward_options(const config::OnlineArguments& arguments);

// Throws Error(invalid_config) if a function of reward_funcs cannot read the row of this prompt. replayed:
// the names of rewards that come from a file.
void check_reward_columns(const config::OnlineArguments& arguments, std::span<const std::string> replayed,
                          const data::PromptExample& prompt);

[[noreturn]] void refuse_second_reward(std::string_view name);

}  // namespace trl::run
