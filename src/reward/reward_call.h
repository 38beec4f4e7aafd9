// An entry of reward_funcs, NAME(argument=value, ...), as a name and its arguments.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json/json.h"

namespace trl::reward {

struct RewardCall {
  std::string text;  // for messages
  std::string name;
  std::vector<std::pair<std::string, base::Json>> arguments;
};

// Reads a name, and in parentheses values with names before them: numbers, texts in double or single quotes,
// lists of these, true, false, null as in JSON or Python. Throws Error(invalid_config, key reward_funcs).
RewardCall parse_reward_call(std::string_view spec);

}  // namespace trl::reward
