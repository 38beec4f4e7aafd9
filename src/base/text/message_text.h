// Messages of a conversation for people. Depends on nothing of the project.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace trl::base {

struct MessageText {
  std::string role;
  // Its reasoning and its content, where they are not empty, then its calls of tools as name(arguments).
  std::vector<std::string> parts;
};

MessageText message_text(const nlohmann::ordered_json& message);  // an object

std::string text_or_json(const nlohmann::ordered_json& value);  // a string as it is

}  // namespace trl::base
