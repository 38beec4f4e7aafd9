// An entry of reward_funcs whose rewards a program gives: [NAME=]command:LINE. Depends on nothing.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace trl::reward {

struct CommandEntry {
  std::string name;  // of its metrics; without NAME the last part of the path that LINE begins with
  std::string line;  // for a shell; empty: there is none
};

std::optional<CommandEntry> command_entry(std::string_view spec);  // nullopt: it is another entry

}  // namespace trl::reward
