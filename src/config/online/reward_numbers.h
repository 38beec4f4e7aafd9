// The numbers of rewards and of reward_weights, which the library and the command check. Depends on nothing.
#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace trl::config {

inline constexpr std::string_view kNoReward =
    "reward_funcs: there is no reward: give reward_funcs, reward_model_name_or_path, a function of the host, "
    "or "
    "replay_rollouts with rewards";

// Returns what is wrong with so many weights for so many rewards; empty: nothing.
inline std::string wrong_weights(int64_t weights, int64_t rewards) {
  if (weights == 0 || weights == rewards) return {};
  return fmt::format("reward_weights: their number is {}, and that of the rewards {}: give one for each",
                     weights, rewards);
}

}  // namespace trl::config
