// Reads the parts of a completion that built-in rewards need.
#pragma once
#include <optional>
#include <string_view>

#include "reward/batch.h"

namespace trl::reward {

// Returns the content of the first message, as TRL's functions read it, or the text of a completion without
// messages. A content that is not a string, as in a message with calls of tools, counts as empty.
std::string_view content_of(const Completion& completion);

// Returns the column `solution`; nothing if it is null. Throws Error(invalid_config, key reward_funcs) if the
// row lacks it, or if it is not text. reward: the name, for the message.
std::optional<std::string_view> solution_of(const Completion& completion, std::string_view reward);

}  // namespace trl::reward
